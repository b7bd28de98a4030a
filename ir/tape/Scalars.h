// Builds the arith/math bodies of ops. Every method takes scalars or vectors, floats or integers, alike.
#pragma once

#include "ir/tape/Tape.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace tapeout::tape {

class ScalarBuilder {
public:
  ScalarBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder_(builder), loc_(loc) {}

  /// A constant of the same type as `like` (splat for vectors).
  mlir::Value constant(mlir::Value like, double value);
  mlir::Value constantInt(mlir::Value like, int64_t value);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value neg(mlir::Value a);
  mlir::Value max(mlir::Value a, mlir::Value b); // NaN if either is
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value exp(mlir::Value a);
  mlir::Value log(mlir::Value a);
  mlir::Value sqrt(mlir::Value a);
  mlir::Value tanh(mlir::Value a);
  mlir::Value erf(mlir::Value a);
  mlir::Value cos(mlir::Value a);
  mlir::Value sin(mlir::Value a);
  mlir::Value pow(mlir::Value a, mlir::Value b);
  /// kind: eq, ne, lt, le, gt, ge. NaN compares false, except for ne.
  mlir::Value compare(llvm::StringRef kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value predicate, mlir::Value a, mlir::Value b);
  mlir::Value bitAnd(mlir::Value a, mlir::Value b);
  mlir::Value bitXor(mlir::Value a, mlir::Value b);
  mlir::Value shiftRight(mlir::Value a, int64_t bits);
  mlir::Value divUnsigned(mlir::Value a, mlir::Value b);
  mlir::Value remUnsigned(mlir::Value a, mlir::Value b);
  /// Low and high half of the product of unsigned integers.
  std::pair<mlir::Value, mlir::Value> mulWide(mlir::Value a, mlir::Value b);
  /// To another element type. Integers are signed, i1 counts 0 or 1; floats go to integers towards zero.
  mlir::Value convert(mlir::Value a, mlir::Type elementType);

private:
  mlir::OpBuilder &builder_;
  mlir::Location loc_;
};

/// One value per result of an elementwise op, of the results' compute types: bf16 and f16 are computed in f32 and rounded
/// to their type once. `arguments` have the operands' compute types; `index` as in ScalarBodyOpInterface.
void buildElement(ScalarBodyOpInterface op, mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange arguments,
                  mlir::Value index, llvm::SmallVectorImpl<mlir::Value> &results);

/// `type` with another element type: scalar to scalar, vector to vector.
mlir::Type withElement(mlir::Type type, mlir::Type elementType);

} // namespace tapeout::tape
