// The plan dialect: memory slots, kernels and instruction programs.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/plan/PlanDialect.h.inc"

#include "ir/plan/PlanInterfaces.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/plan/PlanTypes.h.inc"

#define GET_OP_CLASSES
#include "ir/plan/PlanOps.h.inc"

namespace tapeout::plan {
/// Of a slot that is used as bytes.
mlir::RankedTensorType scratchType(mlir::Builder &builder, int64_t bytes);
} // namespace tapeout::plan
