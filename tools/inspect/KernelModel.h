// A fusion group or kernel as plain data.
#pragma once

#include "tools/inspect/Graph.h"

#include "mlir/IR/Block.h"

#include <cstdint>
#include <string>

namespace tapeout::inspect {

/// The name of an op and, where it has one, its keyword: "reduce sum", "compare ge".
std::string titleOf(mlir::Operation *op);
bool isMovement(mlir::Operation &op);
/// Whether an op stays visible on its own: what is neither elementwise nor a reduction nor a movement.
bool isHeavy(mlir::Operation &op);

/// Makes `node` a kernel with the ops of `body` as its parts: those that compute something, or all if none does. Of a
/// kernel that does the same for several tensors (tape.fusion), those for the first one.
void describeKernel(Node &node, mlir::Block &body, uint64_t tensors);
/// Makes the product `node` a kernel that goes on with `body`, whose first argument is the product's result.
/// `operandBytes` are those of the product's two operands.
void describeEpilogue(Node &node, mlir::Block &body, uint64_t operandBytes);

} // namespace tapeout::inspect
