// The tape dialect, its op interfaces and traits. Op classes are in the header of their family.
#pragma once

#include "ir/tape/Facts.h"
#include "ir/tape/Placement.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

namespace mlir {
class PatternRewriter;
}

namespace tapeout::tape {

/// Elements of a tensor type.
uint64_t elementCount(mlir::Type type);
/// Bytes of one element in memory: i1 takes one.
unsigned elementBytes(mlir::Type elementType);
/// Bytes of all tensors together.
uint64_t totalBytes(mlir::TypeRange types);

llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
int64_t rankOf(mlir::Value value);
mlir::Type elementOf(mlir::Value value);
/// bf16 and f16: types of memory. Ops compute their elements in computeType().
bool isLowPrecision(mlir::Type elementType);
/// The type in which elements of a type are computed: f32 for bf16 and f16, else the type itself.
mlir::Type computeType(mlir::Type elementType);
/// Row-major strides in elements.
llvm::SmallVector<int64_t, 6> rowMajorStrides(llvm::ArrayRef<int64_t> shape);
/// Appends a rule whose values are all placed alike.
void addUniformRule(mlir::Operation *op, AxisPlacement placement, PlacementRules &rules);
/// For ops that treat the rows of the last dimension alike: appends a rule for each dimension of `rows` dimensions, which
/// shards all values but the operands listed.
void addRowRules(mlir::Operation *op, int64_t rows, llvm::ArrayRef<unsigned> replicatedOperands, PlacementRules &rules);
/// Appends the rule that the op is linear in one operand, the others fixed: the sum over devices may wait until after it.
void addLinearRule(mlir::Operation *op, unsigned operand, PlacementRules &rules);
/// The name of the source layer a location carries, or "".
llvm::StringRef layerName(mlir::Location loc);

/// Discardable attributes. On functions' arguments and results:
inline constexpr llvm::StringLiteral kRoleAttr = "tape.role";       // argument: one of the roles below
inline constexpr llvm::StringLiteral kNameAttr = "tape.name";       // argument, result: name in files and messages
inline constexpr llvm::StringLiteral kInitAttr = "tape.init";       // parameter: dictionary kind, a, b, stream, tensor
inline constexpr llvm::StringLiteral kUpdatesAttr = "tape.updates"; // result: index of the argument it is the new value of
inline constexpr llvm::StringLiteral kFrozenAttr = "tape.frozen";   // parameter: no gradient, no update
inline constexpr llvm::StringLiteral kStatisticAttr = "tape.statistic"; // parameter: updated by the step, without gradient
inline constexpr llvm::StringLiteral kGradientOfAttr = "tape.gradient_of"; // result: index of the parameter argument
/// On ops: one of "forward" (absent), "loss", "backward", "optimizer".
inline constexpr llvm::StringLiteral kPhaseAttr = "tape.phase";

inline constexpr llvm::StringLiteral kRoleParameter = "parameter";
inline constexpr llvm::StringLiteral kRoleState = "optimizer_state";
inline constexpr llvm::StringLiteral kRoleCopy = "copy"; // of a parameter, in low precision; follows from it
inline constexpr llvm::StringLiteral kRoleCounter = "counter";
inline constexpr llvm::StringLiteral kRoleConfig = "config";
inline constexpr llvm::StringLiteral kRoleInput = "input";

namespace detail {
mlir::LogicalResult verifyElementwiseShapes(mlir::Operation *op);
void addElementwisePlacements(mlir::Operation *op, llvm::ArrayRef<unsigned> linearOperandSets, PlacementRules &rules);
mlir::LogicalResult inferElementwise(std::optional<mlir::Location> loc, mlir::ValueRange operands,
                                     mlir::Type elementType, mlir::Type &result);
/// The operand that an elementwise result looks like: the first that is not rank 0, or the first. Single numbers take part
/// in whatever precision the tensors have, as Python's numbers do in PyTorch.
mlir::Value leadingOperand(mlir::ValueRange operands);

/// Copies inherent attributes that are still in the attribute dictionary into the properties; wrong ones stay out and are
/// reported by the verifier.
template <typename Op> void completeProperties(mlir::OpaqueProperties properties, mlir::DictionaryAttr attributes) {
  if constexpr (requires { &Op::setPropertiesFromAttr; }) {
    if (!properties || !attributes || attributes.empty())
      return;
    auto ignore = [&] { return mlir::InFlightDiagnostic(); };
    (void)Op::setPropertiesFromAttr(*properties.as<typename Op::Properties *>(), attributes, ignore);
  }
}
} // namespace detail

template <typename ConcreteType>
class ElementwiseShapes : public mlir::OpTrait::TraitBase<ConcreteType, ElementwiseShapes> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return detail::verifyElementwiseShapes(op); }
};

template <typename ConcreteType> class LibraryCall : public mlir::OpTrait::TraitBase<ConcreteType, LibraryCall> {};
/// Whether a library call executes the op, so that no kernel is generated for it.
template <typename ConcreteType> class HandWrittenKernel : public mlir::OpTrait::TraitBase<ConcreteType, HandWrittenKernel> {};
/// Whether a kernel that is written by hand executes the op, instead of a library.
inline bool isHandWrittenKernel(mlir::Operation *op) { return op->hasTrait<HandWrittenKernel>(); }
inline bool isLibraryCall(mlir::Operation *op) { return op->hasTrait<LibraryCall>(); }

template <unsigned... LinearOperandSets> class ElementwisePlacement {
public:
  template <typename ConcreteType> class Impl : public mlir::OpTrait::TraitBase<ConcreteType, Impl> {
  public:
    void getPlacementRules(PlacementRules &rules) {
      detail::addElementwisePlacements(this->getOperation(), {LinearOperandSets...}, rules);
    }
  };
};

template <typename ConcreteType>
class LikeFirstOperand : public mlir::OpTrait::TraitBase<ConcreteType, LikeFirstOperand> {
public:
  static mlir::LogicalResult inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location> loc,
                                              mlir::ValueRange operands, mlir::DictionaryAttr, mlir::OpaqueProperties,
                                              mlir::RegionRange, llvm::SmallVectorImpl<mlir::Type> &types) {
    mlir::Type type;
    if (mlir::failed(detail::inferElementwise(loc, operands, elementOf(detail::leadingOperand(operands)), type)))
      return mlir::failure();
    types.assign(resultCount(), type);
    return mlir::success();
  }

private:
  static constexpr unsigned resultCount() {
    if constexpr (ConcreteType::template hasTrait<mlir::OpTrait::OneResult>())
      return 1;
    else
      return ConcreteType::kResultCount;
  }
};

} // namespace tapeout::tape

#include "ir/tape/Interfaces.h.inc"

#include "ir/tape/Dialect.h.inc"

namespace tapeout::tape {
/// Registers the op classes of one family.
template <typename... Ops> void addOps(TapeDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}
} // namespace tapeout::tape
