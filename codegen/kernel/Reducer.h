// The combiner of a reduction on lanes.
#pragma once

#include "codegen/kernel/KernelBuilder.h"
#include "ir/tape/Reduction.h"

#include <cmath>
#include <limits>

namespace tapeout::codegen {

struct Reducer {
  KernelBuilder &kernel;
  unsigned laneCount;

  /// What does not change a partial result.
  mlir::Value neutral(tape::ReduceOp op) const {
    mlir::Type element = tape::computeType(tape::elementOf(op.getOperand()));
    double number = 0;
    if (op.getKind() == "max")
      number = mlir::isa<mlir::FloatType>(element) ? -std::numeric_limits<double>::infinity()
                                                   : -std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
    return kernel.constant(element, laneCount, number);
  }
  /// `count` partial results for each op: those of the first op first.
  KernelBuilder::Values neutrals(llvm::ArrayRef<tape::ReduceOp> ops, unsigned count) const {
    KernelBuilder::Values values;
    for (tape::ReduceOp op : ops)
      values.append(count, neutral(op));
    return values;
  }
  mlir::Value combine(tape::ReduceOp op, mlir::Value a, mlir::Value b) const {
    KernelBuilder::Values result;
    op.buildScalarBody(kernel.builder(), kernel.loc(), {a, b}, mlir::Value(), result);
    return result.front();
  }
  /// Takes one value per op into partial result `which` of `count` of it.
  void accumulate(llvm::ArrayRef<tape::ReduceOp> ops, KernelBuilder::Values &partial, unsigned which, unsigned count,
                  mlir::ValueRange values, Lanes lanes) const {
    for (auto [number, op, value] : llvm::enumerate(ops, values)) {
      mlir::Value &into = partial[number * count + which];
      into = combine(op, into, kernel.selectActive(lanes, value, neutral(op)));
    }
  }
};

} // namespace tapeout::codegen
