// tape-verify-imported: what later passes rely on in an imported module. Changes nothing.
#include "passes/Functions.h"
#include "passes/Passes.h"

#include "ir/tape/Target.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tapeout {
#define GEN_PASS_DEF_VERIFYIMPORTED
#include "passes/Passes.h.inc"

namespace {

LogicalResult verifyArguments(func::FuncOp func) {
  llvm::StringSet<> names;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    StringRef name = argumentAttr(func, i, tape::kNameAttr), role = argumentAttr(func, i, tape::kRoleAttr);
    if (role != tape::kRoleParameter && role != tape::kRoleInput)
      return func.emitError() << "argument " << i << " of @" << func.getName() << " is neither a parameter nor an input";
    if (name.empty() || !names.insert(name).second)
      return func.emitError() << "argument " << i << " of @" << func.getName() << " has no name of its own: '" << name << "'";
  }
  return success();
}

LogicalResult verifyOp(Operation &op, const tape::Target &target) {
  if (!isa<tape::FactsOpInterface>(op))
    return op.emitError() << "'" << op.getName() << "' is not an op of a model graph";
  if (isa<tape::WindowOpInterface>(op) && !target.windows)
    return op.emitError() << "'" << op.getName().stripDialect() << "' has no form on the target " << target.name
                          << "; compile with --target cpu";
  return success();
}

struct VerifyImported : impl::VerifyImportedBase<VerifyImported> {
  void runOnOperation() override {
    if (!getOperation().lookupSymbol<func::FuncOp>("forward")) {
      getOperation().emitError("the module has no function @forward");
      return signalPassFailure();
    }
    auto target = getOperation()->getAttrOfType<StringAttr>(tape::kTargetAttr);
    if (target && !tape::findTarget(target)) {
      getOperation().emitError() << "there is no target '" << target.getValue() << "'";
      return signalPassFailure();
    }
    bool failed = false;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      failed |= mlir::failed(verifyArguments(func));
      for (Operation &op : func.getBody().front().without_terminator())
        failed |= mlir::failed(verifyOp(op, tape::targetOf(getOperation())));
    }
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
