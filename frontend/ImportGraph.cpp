#include "frontend/ImportGraph.h"

#include "ir/tape/Embedding.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include "llvm/Support/GlobPattern.h"

#include <algorithm>

using namespace mlir;

namespace tapeout::frontend {

namespace {

Type elementType(Builder &builder, ElementType element) {
  switch (element) {
  case ElementType::F32:
    return builder.getF32Type();
  case ElementType::F64:
    return builder.getF64Type();
  case ElementType::BF16:
    return builder.getBF16Type();
  case ElementType::F16:
    return builder.getF16Type();
  case ElementType::I1:
    return builder.getI1Type();
  case ElementType::I32:
    return builder.getI32Type();
  case ElementType::I64:
    return builder.getI64Type();
  }
  llvm_unreachable("ElementType");
}

StringRef kindName(Initializer::Kind kind) {
  switch (kind) {
  case Initializer::Kind::Zeros:
    return "zeros";
  case Initializer::Kind::Ones:
    return "ones";
  case Initializer::Kind::Constant:
    return "constant";
  case Initializer::Kind::Normal:
    return "normal";
  case Initializer::Kind::Uniform:
    return "uniform";
  case Initializer::Kind::External:
    return "external";
  }
  llvm_unreachable("Initializer::Kind");
}

/// How many operands an op takes, from its traits and what it says is optional.
struct OperandCount {
  size_t least;
  size_t most = least;

  bool isOpen() const { return most == SIZE_MAX; }
  std::string text() const {
    if (isOpen())
      return std::to_string(least) + " or more";
    return least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  }
};

bool hasSegments(RegisteredOperationName info) { return info.hasTrait<OpTrait::AttrSizedOperandSegments>(); }

template <size_t... N> OperandCount operandCount(RegisteredOperationName info, std::index_sequence<N...>) {
  OperandCount count{0, SIZE_MAX};
  if (info.hasTrait<OpTrait::ZeroOperands>())
    count = {0};
  if (info.hasTrait<OpTrait::OneOperand>())
    count = {1};
  ((info.hasTrait<OpTrait::NOperands<N + 2>::template Impl>() ? void(count = {N + 2}) : void()), ...);
  ((info.hasTrait<OpTrait::AtLeastNOperands<N + 1>::template Impl>() ? void(count = {N + 1, SIZE_MAX}) : void()), ...);
  if (hasSegments(info))
    count.most = count.least + info.getInterface<tape::FactsOpInterface>()->getOptionalOperands();
  return count;
}

/// Imports the graph as one function for one batch size.
class FunctionImporter {
public:
  FunctionImporter(ModuleOp module, const Graph &graph, int64_t batch)
      : module_(module), graph_(graph), batch_(batch), builder_(module.getContext()) {}

  LogicalResult import(StringRef name, ArrayRef<bool> frozen) {
    createFunction(name, frozen);
    if (failed(checkOpsExist()))
      return failure();
    for (BlockArgument argument : function_.getArguments())
      if (failed(checkSize(argument, "input or parameter")))
        return failure();
    for (const Node &node : graph_.nodes)
      if (failed(importNode(node)))
        return failure();
    Value output = values_[graph_.output];
    if (failed(markStatistics()) || failed(checkVocabulary(output)))
      return failure();
    builder_.create<func::ReturnOp>(builder_.getUnknownLoc(), output);
    function_.setType(builder_.getFunctionType(function_.getArgumentTypes(), output.getType()));
    function_.setResultAttr(0, tape::kNameAttr, builder_.getStringAttr("logits"));
    return success();
  }

private:
  Location named(StringRef name) { return NameLoc::get(builder_.getStringAttr(name)); }

  int64_t resolve(int64_t extent) const { return extent == kBatch ? batch_ : extent; }

  RankedTensorType tensorType(const TensorType &type) {
    SmallVector<int64_t> shape;
    for (int64_t extent : type.shape)
      shape.push_back(resolve(extent));
    return RankedTensorType::get(shape, elementType(builder_, type.element));
  }

  DictionaryAttr argumentAttributes(StringRef role, StringRef name, ArrayRef<NamedAttribute> more = {}) {
    SmallVector<NamedAttribute> attributes(more);
    attributes.push_back(builder_.getNamedAttr(tape::kRoleAttr, builder_.getStringAttr(role)));
    attributes.push_back(builder_.getNamedAttr(tape::kNameAttr, builder_.getStringAttr(name)));
    return builder_.getDictionaryAttr(attributes);
  }

  DictionaryAttr initializerAttr(const Initializer &initializer, size_t stream) {
    return builder_.getDictionaryAttr({builder_.getNamedAttr("kind", builder_.getStringAttr(kindName(initializer.kind))),
                                       builder_.getNamedAttr("a", builder_.getF64FloatAttr(initializer.a)),
                                       builder_.getNamedAttr("b", builder_.getF64FloatAttr(initializer.b)),
                                       builder_.getNamedAttr("stream", builder_.getI64IntegerAttr(stream)),
                                       builder_.getNamedAttr("tensor", builder_.getStringAttr(initializer.tensor))});
  }

  void createFunction(StringRef name, ArrayRef<bool> frozen) {
    SmallVector<Type> types;
    SmallVector<Location> locations;
    SmallVector<mlir::Attribute> attributes;
    for (const Input &input : graph_.inputs) {
      types.push_back(tensorType(input.type));
      locations.push_back(named(input.name));
      attributes.push_back(argumentAttributes(tape::kRoleInput, input.name));
    }
    for (auto [i, parameter] : llvm::enumerate(graph_.parameters)) {
      types.push_back(tensorType(parameter.type));
      locations.push_back(named(parameter.name));
      SmallVector<NamedAttribute> more = {builder_.getNamedAttr(tape::kInitAttr, initializerAttr(parameter.initializer, i))};
      if (frozen[i])
        more.push_back(builder_.getNamedAttr(tape::kFrozenAttr, builder_.getUnitAttr()));
      attributes.push_back(argumentAttributes(tape::kRoleParameter, parameter.name, more));
    }
    builder_.setInsertionPointToEnd(module_.getBody());
    function_ = builder_.create<func::FuncOp>(named(graph_.name), name, builder_.getFunctionType(types, {}));
    function_.setArgAttrsAttr(builder_.getArrayAttr(attributes));
    Block *body = &function_.getBody().emplaceBlock();
    llvm::append_range(values_, body->addArguments(types, locations));
    builder_.setInsertionPointToEnd(body);
  }

  mlir::Attribute attribute(StringRef name, const Attribute &value) {
    if (auto integer = std::get_if<int64_t>(&value))
      return builder_.getI64IntegerAttr(*integer);
    if (auto number = std::get_if<double>(&value))
      return builder_.getF64FloatAttr(*number);
    if (auto flag = std::get_if<bool>(&value))
      return builder_.getBoolAttr(*flag);
    if (auto text = std::get_if<std::string>(&value))
      return builder_.getStringAttr(*text);
    SmallVector<int64_t> integers(llvm::ArrayRef<int64_t>(std::get<std::vector<int64_t>>(value)));
    if (name == "shape" || name == "limits") // the only lists that hold extents
      llvm::transform(integers, integers.begin(), [&](int64_t extent) { return resolve(extent); });
    return builder_.getDenseI64ArrayAttr(integers);
  }

  std::optional<RegisteredOperationName> findOp(const Node &node) {
    auto info = RegisteredOperationName::lookup("tape." + node.op, builder_.getContext());
    if (info && info->hasInterface<tape::FactsOpInterface>() && info->hasInterface<InferTypeOpInterface>())
      return info;
    return std::nullopt;
  }

  /// One message for all ops that this build does not know.
  LogicalResult checkOpsExist() {
    std::string unknown;
    int count = 0;
    for (const Node &node : graph_.nodes)
      if (!findOp(node) && ++count <= 20)
        unknown += (count > 1 ? ", '" : "'") + node.op + "' (layer '" + node.name + "')";
    if (count == 0)
      return success();
    return function_.emitError() << "the model uses " << count << " op(s) that do not exist: " << unknown
                                 << (count > 20 ? ", ..." : "") << "; docs/reference lists those there are";
  }

  /// Sizes depend on the batch, so that a file alone cannot be checked for them.
  LogicalResult checkSize(Value value, StringRef what) {
    constexpr uint64_t kMaxElements = uint64_t(1) << 44;
    uint64_t elements = 1;
    for (int64_t extent : tape::shapeOf(value))
      if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements) || elements > kMaxElements)
        return emitError(value.getLoc()) << "layer '" << tape::layerName(value.getLoc()) << "': " << what << " " << value.getType()
                                         << " is larger than any memory; use a smaller --batch";
    return success();
  }

  /// Parameters that an op updates without a gradient are statistics, whatever the freeze patterns say.
  LogicalResult markStatistics() {
    auto result = function_.walk([&](tape::StatefulOpInterface op) {
      for (auto [operand, updated] : op.getStateUpdates()) {
        auto argument = dyn_cast<BlockArgument>(op->getOperand(operand));
        bool isParameter = argument && argument.getArgNumber() >= graph_.inputs.size();
        if (!isParameter || !argument.hasOneUse()) {
          op->emitError() << "layer '" << tape::layerName(op->getLoc()) << "': operand " << operand << " of '" << op->getName().stripDialect()
                          << "' is updated by each step, so it must be a parameter that nothing else reads";
          return WalkResult::interrupt();
        }
        function_.setArgAttr(argument.getArgNumber(), tape::kStatisticAttr, builder_.getUnitAttr());
        function_.removeArgAttr(argument.getArgNumber(), tape::kFrozenAttr);
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Token ids and labels lie below the vocabulary, so every one needs a logit; a padded output has more.
  LogicalResult checkVocabulary(Value output) {
    if (graph_.task == Task::Regression)
      return success();
    ArrayRef<int64_t> shape = tape::shapeOf(output);
    if (!shape.empty() && shape.back() >= graph_.vocabulary)
      return success();
    return emitError(output.getLoc()) << "the output " << output.getType() << " has fewer logits than the model's "
                                      << graph_.vocabulary << " classes or tokens; correct the model's vocabulary or its last layer";
  }

  /// Ids are not checked while training, so the table must have a row for every one that the data may hold.
  LogicalResult checkTable(const Node &node, Value table) {
    ArrayRef<int64_t> shape = tape::shapeOf(table);
    if (!readsTokens(graph_.task) || shape.empty() || shape.front() >= graph_.vocabulary)
      return success();
    return emitError(named(node.name)) << "layer '" << node.name << "': the table " << table.getType()
                                       << " has fewer rows than the model's vocabulary of " << graph_.vocabulary
                                       << "; correct the vocabulary or the table";
  }

  LogicalResult importNode(const Node &node) {
    OperationState state(named(node.name), "tape." + node.op);
    auto info = findOp(node); // checkOpsExist has found it
    OperandCount count = operandCount(*info, std::make_index_sequence<12>());
    if (node.operands.size() < count.least || node.operands.size() > count.most)
      return emitError(state.location) << "layer '" << node.name << "': '" << node.op << "' takes " << count.text()
                                       << " operands, not " << node.operands.size();
    for (uint32_t operand : node.operands)
      state.operands.push_back(values_[operand]);
    for (const auto &[name, value] : node.attributes) {
      if (llvm::none_of(info->getAttributeNames(), [&](StringAttr known) { return known.getValue() == name; }))
        return emitError(state.location) << "layer '" << node.name << "': '" << node.op << "' has no attribute '" << name << "'";
      state.addAttribute(name, attribute(name, value));
    }
    if (hasSegments(*info))
      addSegmentSizes(state, count);
    if (failed(inferTypes(*info, state, node)))
      return failure();
    Operation *op = builder_.create(state);
    if (failed(verify(op, /*verifyRecursively=*/false)))
      return failure();
    if (auto embedding = dyn_cast<tape::EmbeddingOp>(op); embedding && isa<BlockArgument>(embedding.getIds()))
      if (failed(checkTable(node, embedding.getTable())))
        return failure();
    if (op->getNumResults() < node.resultCount)
      return op->emitError() << "layer '" << node.name << "' names " << node.resultCount << " results, but '" << node.op
                             << "' has " << op->getNumResults();
    for (Value result : op->getResults())
      if (failed(checkSize(result, "result")))
        return failure();
    llvm::append_range(values_, op->getResults().take_front(node.resultCount));
    return success();
  }

  /// Result types by the op's own rule, after its attributes have become properties.
  LogicalResult inferTypes(RegisteredOperationName info, OperationState &state, const Node &node) {
    auto diagnose = [&]() -> InFlightDiagnostic { return emitError(state.location) << "layer '" << node.name << "': "; };
    DictionaryAttr attributes = state.attributes.getDictionary(builder_.getContext());

    auto infer = [&](OpaqueProperties properties) {
      return info.getInterface<InferTypeOpInterface>()->inferReturnTypes(builder_.getContext(), state.location, state.operands,
                                                                         attributes, properties, {}, state.types);
    };
    if (info.getOpPropertyByteSize() == 0)
      return infer(OpaqueProperties(nullptr));
    std::unique_ptr<char[]> storage(new char[info.getOpPropertyByteSize()]());
    OpaqueProperties properties(storage.get());
    info.initOpProperties(properties, OpaqueProperties(nullptr));
    LogicalResult result = info.setOpPropertiesFromAttribute(state.name, properties, attributes, diagnose);
    if (succeeded(result))
      result = infer(properties);
    info.destroyOpProperties(properties);
    return result;
  }

  /// Ops with optional operands: those that a model file may give, then what only a training step has.
  void addSegmentSizes(OperationState &state, OperandCount count) {
    constexpr size_t kRandomKey = 2; // seed and step
    SmallVector<int32_t> sizes(state.operands.size(), 1);
    sizes.resize(count.most + kRandomKey, 0);
    state.attributes.set("operandSegmentSizes", builder_.getDenseI32ArrayAttr(sizes));
  }

  ModuleOp module_;
  const Graph &graph_;
  int64_t batch_;
  OpBuilder builder_;
  func::FuncOp function_;
  SmallVector<Value> values_;
};

/// Which parameters match a pattern; a pattern that matches none is most likely a typing error.
FailureOr<SmallVector<bool>> findFrozen(ModuleOp module, const Graph &graph, ArrayRef<std::string> patterns) {
  SmallVector<bool> frozen(graph.parameters.size(), false);
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    bool matched = false;
    if (glob)
      for (auto [i, parameter] : llvm::enumerate(graph.parameters))
        if (glob->match(parameter.name))
          frozen[i] = matched = true;
    if (!glob)
      llvm::consumeError(glob.takeError());
    if (!matched)
      return module.emitError() << "the freeze pattern '" << pattern << "' matches no parameter of model '" << graph.name << "'";
  }
  return frozen;
}

} // namespace

OwningOpRef<ModuleOp> importGraph(MLIRContext &context, const Graph &graph, const ImportOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(NameLoc::get(StringAttr::get(&context, graph.name)), graph.name);
  auto frozen = findFrozen(*module, graph, options.freeze);
  if (failed(frozen) || failed(FunctionImporter(*module, graph, options.batch).import("forward", *frozen)))
    return nullptr;
  if (graph.task == Task::LanguageModel && failed(FunctionImporter(*module, graph, 1).import("predict", *frozen)))
    return nullptr;
  return module;
}

} // namespace tapeout::frontend
