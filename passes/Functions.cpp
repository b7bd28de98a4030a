#include "passes/Functions.h"

using namespace mlir;

namespace tapeout {

static StringRef stringOf(Attribute attribute) {
  auto string = dyn_cast_or_null<StringAttr>(attribute);
  return string ? string.getValue() : "";
}

StringRef argumentAttr(func::FuncOp func, unsigned index, StringRef attribute) {
  return stringOf(func.getArgAttr(index, attribute));
}
StringRef resultAttr(func::FuncOp func, unsigned index, StringRef attribute) {
  return stringOf(func.getResultAttr(index, attribute));
}

SmallVector<unsigned> argumentsWithRole(func::FuncOp func, StringRef role) {
  SmallVector<unsigned> arguments;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (argumentAttr(func, i, tape::kRoleAttr) == role)
      arguments.push_back(i);
  return arguments;
}

BlockArgument findArgument(func::FuncOp func, StringRef role) {
  auto arguments = argumentsWithRole(func, role);
  return arguments.empty() ? BlockArgument() : func.getArgument(arguments.front());
}

bool isTrainable(func::FuncOp func, unsigned argument) {
  return argumentAttr(func, argument, tape::kRoleAttr) == tape::kRoleParameter &&
         !func.getArgAttr(argument, tape::kFrozenAttr) && !func.getArgAttr(argument, tape::kStatisticAttr);
}

SmallVector<BlockArgument> addArguments(func::FuncOp func, ArrayRef<ArgumentSpec> specs) {
  MLIRContext *context = func.getContext();
  auto string = [&](StringRef text) { return StringAttr::get(context, text); };
  SmallVector<unsigned> indices(specs.size(), func.getNumArguments());
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Location> locations;
  for (const ArgumentSpec &spec : specs) {
    types.push_back(spec.type);
    attributes.push_back(DictionaryAttr::get(context, {{string(tape::kRoleAttr), string(spec.role)},
                                                       {string(tape::kNameAttr), string(spec.name)}}));
    locations.push_back(NameLoc::get(string(spec.name)));
  }
  func.insertArguments(indices, types, attributes, locations);
  return SmallVector<BlockArgument>(func.getArguments().take_back(specs.size()));
}

BlockArgument addArgument(func::FuncOp func, Type type, StringRef role, StringRef name) {
  return addArguments(func, {{type, role.str(), name.str()}}).front();
}

SmallVector<NamedResult> getResults(func::FuncOp func) {
  SmallVector<NamedResult> results;
  Operation *terminator = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    results.push_back({value, func.getResultAttrDict(i)});
  return results;
}

void setResults(func::FuncOp func, ArrayRef<NamedResult> results) {
  SmallVector<Value> values;
  SmallVector<Attribute> attributes;
  for (const NamedResult &result : results) {
    values.push_back(result.value);
    attributes.push_back(result.attributes ? result.attributes : DictionaryAttr::get(func.getContext()));
  }
  func.getBody().front().getTerminator()->setOperands(values);
  func.setType(FunctionType::get(func.getContext(), func.getArgumentTypes(), TypeRange(ValueRange(values))));
  func.setResAttrsAttr(ArrayAttr::get(func.getContext(), attributes));
}

NamedResult namedResult(Value value, StringRef name) {
  MLIRContext *context = value.getContext();
  return {value, DictionaryAttr::get(context, {{StringAttr::get(context, tape::kNameAttr), StringAttr::get(context, name)}})};
}

Value findResult(func::FuncOp func, StringRef name) {
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (resultAttr(func, i, tape::kNameAttr) == name)
      return func.getBody().front().getTerminator()->getOperand(i);
  return {};
}

PhaseScope::PhaseScope(OpBuilder &builder, StringRef phase)
    : builder_(builder), previous_(builder.getListener()), phase_(builder.getStringAttr(phase)) {
  builder_.setListener(this);
}

void PhaseScope::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (!op->hasAttr(tape::kPhaseAttr))
    op->setAttr(tape::kPhaseAttr, phase_);
}

} // namespace tapeout
