// Short names for building tape ops in gradients, decompositions and passes.
#pragma once

#include "mlir/IR/Builders.h"

namespace tapeout::tape {

class TapeBuilder {
public:
  using Value = mlir::Value;
  using Ints = llvm::ArrayRef<int64_t>;

  TapeBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder_(builder), loc_(loc) {}
  mlir::OpBuilder &builder() { return builder_; }
  mlir::Location loc() const { return loc_; }

  Value constant(mlir::Type elementType, double value); // rank 0
  Value constantLike(Value like, double value);         // rank 0, like's element type
  Value iota(Ints shape, int64_t dimension);

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, double b) { return mul(a, constantLike(a, b)); }
  Value div(Value a, Value b);
  Value neg(Value a);
  Value maximum(Value a, Value b);
  Value exp(Value a);
  Value log(Value a);
  Value sqrt(Value a);
  Value rsqrt(Value a);
  Value compare(llvm::StringRef kind, Value a, Value b);
  Value select(Value predicate, Value a, Value b);
  Value convert(Value a, mlir::Type elementType);

  Value reshape(Value a, Ints shape);
  Value transpose(Value a, Ints permutation);
  Value broadcast(Value a, Ints shape, Ints dimensions);
  Value slice(Value a, Ints starts, Ints limits);
  /// Repeats a value with one dimension less than `like` along like's last dimension.
  Value broadcastRows(Value a, Value like);
  /// Repeats a rank-1 value along all but the last dimension of `like`.
  Value broadcastLast(Value a, Value like);
  Value reduce(llvm::StringRef kind, Value a, Ints dimensions);
  Value reduceLast(llvm::StringRef kind, Value a);
  Value reduceAll(llvm::StringRef kind, Value a);
  /// `elementType`: of the result; null: as the operands. `triangle`, `addend`: those of the op.
  Value dot(Value lhs, Value rhs, Ints lhsBatch, Ints rhsBatch, Ints lhsContract, Ints rhsContract,
            mlir::Type elementType = {}, llvm::StringRef triangle = {}, Value addend = {});

  /// The gradient of an operand that may have been a broadcast rank-0 value.
  Value sumTo(Value gradient, Value operand);

private:
  mlir::OpBuilder &builder_;
  mlir::Location loc_;
};

} // namespace tapeout::tape
