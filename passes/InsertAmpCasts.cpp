// tape-insert-amp-casts: chooses for each op whether it runs in low precision (bf16 or f16) or in f32 and converts its
// operands. It asks for the op's AMP class:
//   Always  low precision;
//   Never   f32;
//   Inside  f32, but at level O2 the first result is as precise as the first operand was: norms, and their gradients for
//           the operand, keep the residual low. Statistics stay f32;
//   Follow  as its tensors do, f32 where they differ (PyTorch's promotion). Parameters do not decide: level O1 lets a bias
//           follow the product that it is added to, O2 lets every parameter follow.
// The optimizer, and layers that the user marked, are f32. So are gradients on their way to the optimizer: products whose
// sum is such a gradient return it unrounded.
//
// Narrowing is done once for each value and shared by all readers, so each weight is cast once per step. Level O2 keeps the
// narrowed parameters instead as copies that the optimizer writes (@prepare fills them at the start). Widening costs nothing
// inside a kernel and is done anew for each reader: nothing wide lives from forward to backward for it.
#include "passes/Functions.h"
#include "passes/NamePatterns.h"
#include "passes/ParameterCopies.h"
#include "passes/Passes.h"

#include "ir/tape/TapeBuilder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_INSERTAMPCASTS
#include "passes/Passes.h.inc"

namespace {

bool isCastable(Value value) { return tape::elementOf(value).isF32() || tape::isLowPrecision(tape::elementOf(value)); }

/// Operands whose precision mixed precision decides. Single numbers take part in any precision.
bool isDecided(OpOperand &operand) {
  auto facts = cast<tape::FactsOpInterface>(operand.getOwner());
  return isCastable(operand.get()) && !facts.keepsPrecision(operand.getOperandNumber()) &&
         (tape::rankOf(operand.get()) > 0 || facts.getFusionKind() != tape::FusionKind::Elementwise);
}

bool isView(Operation *op) {
  auto facts = dyn_cast_or_null<tape::FactsOpInterface>(op);
  return facts && facts.getFusionKind() == tape::FusionKind::Injective && op->getNumOperands() == 1;
}

StringRef phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  return phase ? phase.getValue() : "";
}

/// Ops whose result is a parameter's gradient, or a part of such a sum: what the optimizer reads, back through ops that
/// only follow.
llvm::DenseSet<Operation *> findGradientSums(Block &block) {
  llvm::DenseSet<Operation *> sums;
  SmallVector<Value> worklist;
  for (Operation &op : block)
    if (phaseOf(&op) == "optimizer")
      llvm::append_range(worklist, op.getOperands());
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || phaseOf(op) != "backward" || !sums.insert(op).second)
      continue;
    if (cast<tape::FactsOpInterface>(op).getAmpClass() == tape::AmpClass::Follow)
      llvm::append_range(worklist, op->getOperands());
  }
  return sums;
}

/// Result types follow from the operands, also after these have changed.
LogicalResult inferTypes(Operation *op) {
  SmallVector<Type> types;
  if (failed(cast<InferTypeOpInterface>(op).inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                                             op->getAttrDictionary(), op->getPropertiesStorage(),
                                                             op->getRegions(), types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
    result.setType(type);
  return success();
}

/// Rewrites one function.
class AmpCasts {
public:
  AmpCasts(func::FuncOp func, Type low, bool keepsCopies, NamePatterns &keepFp32)
      : func_(func), low_(low), wide_(Float32Type::get(func.getContext())), keepsCopies_(keepsCopies), keepFp32_(keepFp32),
        block_(func.getBody().front()), gradientSums_(findGradientSums(block_)) {
    for (unsigned i : argumentsWithRole(func, tape::kRoleParameter))
      fromParameters_.insert(func.getArgument(i));
  }

  LogicalResult rewrite() {
    for (Operation &op : llvm::make_early_inc_range(block_.without_terminator()))
      if (failed(visit(&op)))
        return failure();
    Operation *terminator = block_.getTerminator();
    for (auto [operand, type] : llvm::zip_equal(terminator->getOpOperands(), func_.getResultTypes()))
      if (isCastable(operand.get()))
        operand.set(cast(operand.get(), ::mlir::cast<RankedTensorType>(type).getElementType(), terminator));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block_)))
      if (isOpTriviallyDead(&op)) // views of parameters that all readers want narrowed
        op.erase();
    return success();
  }

private:
  //===- Decision -------------------------------------------------------------------------------------------------------===//

  bool isKeptFp32(Operation *op) { return keepFp32_.match(tape::layerName(op->getLoc())) || phaseOf(op) == "optimizer"; }

  bool isLow(Operation *op) {
    if (isKeptFp32(op))
      return false;
    switch (::mlir::cast<tape::FactsOpInterface>(op).getAmpClass()) {
    case tape::AmpClass::Always:
      return true;
    case tape::AmpClass::Never:
    case tape::AmpClass::Inside:
      return false;
    case tape::AmpClass::Follow:
      return !gradientSums_.contains(op) && followsLow(op);
    }
    llvm_unreachable("AmpClass");
  }

  bool followsLow(Operation *op) const {
    bool anyLow = false, anyWide = false, anyParameter = false, afterProduct = false;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isDecided(operand))
        continue;
      bool low = tape::isLowPrecision(tape::elementOf(operand.get()));
      if (fromParameters_.contains(operand.get()))
        anyParameter = true;
      else
        (low ? anyLow : anyWide) = true;
      afterProduct |= low && isProduct(operand.get());
    }
    if (anyWide)
      return false;
    if (!anyParameter)
      return anyLow;
    return keepsCopies_ || afterProduct;
  }

  /// Whether an op that computes in f32 returns low precision. To be asked before its operands are widened.
  bool isLowOutside(Operation *op) {
    return keepsCopies_ && ::mlir::cast<tape::FactsOpInterface>(op).getAmpClass() == tape::AmpClass::Inside &&
           tape::isLowPrecision(tape::elementOf(op->getOperand(0))) && !gradientSums_.contains(op) && !isKeptFp32(op);
  }

  static bool isProduct(Value value) {
    Operation *op = value.getDefiningOp();
    while (isView(op))
      op = op->getOperand(0).getDefiningOp();
    auto facts = dyn_cast_or_null<tape::FactsOpInterface>(op);
    return facts && facts.getAmpClass() == tape::AmpClass::Always;
  }

  //===- Transformation ---------------------------------------------------------------------------------------------------===//

  LogicalResult visit(Operation *op) {
    bool view = isView(op), ofParameters = view && fromParameters_.contains(op->getOperand(0));
    bool low = !ofParameters && isLow(op); // a view of a parameter waits for who reads it
    bool lowOutside = isLowOutside(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isDecided(operand))
        operand.set(cast(operand.get(), low ? low_ : wide_, op));
    if (failed(inferTypes(op)))
      return failure();
    if (ofParameters)
      fromParameters_.insert(op->getResult(0));
    if (auto product = dyn_cast<tape::WideResultOpInterface>(op); product && low && gradientSums_.contains(op))
      product.widenResult();
    if (lowOutside)
      narrowFirstResult(op);
    return success();
  }

  void narrowFirstResult(Operation *op) {
    Value result = op->getResult(0), narrow = convert(result, low_, op);
    narrow.getDefiningOp()->moveAfter(op);
    result.replaceAllUsesExcept(narrow, narrow.getDefiningOp());
  }

  Value cast(Value value, Type element, Operation *reader) {
    if (tape::elementOf(value) == element)
      return value;
    if (!tape::isLowPrecision(element))
      return convert(value, element, reader);
    Value narrow = narrowed_.lookup(value);
    if (!narrow) {
      narrow = narrowOnce(value, element, reader); // may narrow others, so that the map grows
      narrowed_[value] = narrow;
    }
    return narrow;
  }

  Value narrowOnce(Value value, Type element, Operation *reader) {
    if (auto argument = dyn_cast<BlockArgument>(value); argument && fromParameters_.contains(value) && keepsCopies_)
      return copyOfParameter(func_, argument, element);
    if (!fromParameters_.contains(value) || isa<BlockArgument>(value))
      return convert(value, element, reader);
    // A view of a parameter is a view of the narrowed parameter.
    Operation *view = value.getDefiningOp();
    OpBuilder builder(reader);
    Operation *narrow = builder.clone(*view);
    narrow->setOperand(0, cast(view->getOperand(0), element, narrow));
    (void)inferTypes(narrow); // it was right for the other type
    return narrow->getResult(0);
  }

  /// Before the first reader: every later one comes after it. A parameter's cast carries its name.
  Value convert(Value value, Type element, Operation *reader) {
    OpBuilder builder(reader);
    bool narrows = tape::isLowPrecision(element);
    Value result = tape::TapeBuilder(builder, narrows ? value.getLoc() : reader->getLoc()).convert(value, element);
    if (Attribute phase = reader->getAttr(tape::kPhaseAttr))
      result.getDefiningOp()->setAttr(tape::kPhaseAttr, phase);
    return result;
  }

  func::FuncOp func_;
  Type low_, wide_;
  bool keepsCopies_;
  NamePatterns &keepFp32_;
  Block &block_;
  llvm::DenseSet<Operation *> gradientSums_;
  llvm::DenseSet<Value> fromParameters_; // parameters and views of them
  llvm::DenseMap<Value, Value> narrowed_;
};

struct InsertAmpCasts : impl::InsertAmpCastsBase<InsertAmpCasts> {
  using InsertAmpCastsBase::InsertAmpCastsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if ((precision != "bf16" && precision != "fp16") || (level != "O1" && level != "O2")) {
      module.emitError() << "there is no mixed precision '" << precision << "' at level '" << level
                         << "'; use bf16 or fp16, and O1 or O2";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    Type low = precision == "bf16" ? Type(builder.getBF16Type()) : Type(builder.getF16Type());
    FailureOr<NamePatterns> patterns = NamePatterns::create(module, llvm::to_vector(keepFp32));
    if (failed(patterns))
      return signalPassFailure();
    for (auto func : module.getOps<func::FuncOp>())
      if (failed(AmpCasts(func, low, level == "O2", *patterns).rewrite()))
        return signalPassFailure();
    if (failed(patterns->checkAllUsed(module, "--keep-fp32", "layer")))
      return signalPassFailure();
    if (level == "O2") {
      if (auto step = module.lookupSymbol<func::FuncOp>("step"))
        updateCopies(step);
      buildPrepare(module);
    }
  }
};

} // namespace
} // namespace tapeout
