// tape-decompose: rewrites semantic ops into elementwise ops, reductions and products, asking each op for its own
// decomposition. They have stayed whole until here because their gradients are better written than derived.
#include "passes/Passes.h"

#include "ir/tape/Decompose.h"
#include "ir/tape/Tape.h"

#include "mlir/IR/BuiltinOps.h"

namespace tapeout {
#define GEN_PASS_DEF_DECOMPOSE
#include "passes/Passes.h.inc"

namespace {

struct Decompose : impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    if (mlir::failed(tape::decomposeOps(getOperation())))
      signalPassFailure();
  }
};

} // namespace
} // namespace tapeout
