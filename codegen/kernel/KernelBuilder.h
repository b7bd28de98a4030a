// The words that kernel schedules are written in: loops over i64, and lanes of elements. Hides the MLIR dialects.
#pragma once

#include "mlir/IR/Builders.h"

namespace tapeout::codegen {

/// Elements handled at once: on the cpu `count` is 16, or 1 where vectors are not worth it; on cuda up to 8 for one
/// thread. Only the first `active` touch memory.
struct Lanes {
  unsigned count, active;
};

class KernelBuilder {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<mlir::Value>;
  template <typename T> using Ref = llvm::function_ref<T>;

  /// Integers have `indexBits` bits, 32 or 64. `aligned`: vectors are read and written at once where load() and store() are
  /// told that they lie evenly; else any element may begin one.
  KernelBuilder(mlir::OpBuilder &builder, mlir::Location loc, unsigned indexBits = 64, bool aligned = false)
      : builder_(builder), loc_(loc), indexBits_(indexBits), aligned_(aligned) {}
  mlir::OpBuilder &builder() { return builder_; }
  mlir::Location loc() const { return loc_; }

  // Integers: units, loop counters and offsets.
  Value integer(int64_t value);
  Value add(Value a, Value b);
  Value subtract(Value a, Value b);
  Value multiply(Value a, int64_t factor);
  Value multiply(Value a, Value b);
  Value divide(Value a, int64_t divisor);    // a >= 0
  Value remainder(Value a, int64_t divisor); // a >= 0
  Value minimum(Value a, Value b);
  Value equal(Value a, int64_t b);
  Value less(Value a, int64_t b);
  /// 0 <= a < b for an i32 or i64 of any value.
  Value inRange(Value a, int64_t bound);
  Value toIndex(Value a); // an i32 or i64 that is in range
  /// Indices of the dimensions `extents` of the element with this row-major number.
  Values delinearize(Value number, llvm::ArrayRef<int64_t> extents);
  /// offset + sum of strides[i] * indices[i].
  Value linear(int64_t offset, llvm::ArrayRef<int64_t> strides, mlir::ValueRange indices);

  // Control flow.
  void loop(Value from, Value to, int64_t step, Ref<void(Value)> body);
  /// A loop that carries values around; returns them as they leave it.
  Values loop(Value from, Value to, int64_t step, mlir::ValueRange carried, Ref<Values(Value, Values)> body);
  void ifElse(Value condition, Ref<void()> then, Ref<void()> otherwise);
  void ifThen(Value condition, Ref<void()> then);
  /// [from, to) in whole vectors of `count` lanes, then what is left of `extent` (to == its last whole vector's end).
  /// body(i, lanes) handles elements i, i + 1, ...
  void vectors(int64_t extent, unsigned count, Ref<void(Value, Lanes)> body);

  // Lanes.
  mlir::Type laneType(mlir::Type element, unsigned count) const;
  Value splat(Value scalar, unsigned count);
  /// base, base + stride, base + 2 * stride, ...
  Value sequence(Value base, int64_t stride, unsigned count);
  /// `number` in all lanes: of the element type, for bf16 and f16 of f32.
  Value constant(mlir::Type element, unsigned count, double number);
  /// value where a lane is active, `other` elsewhere.
  Value selectActive(Lanes lanes, Value value, Value other);
  /// Lanes of f32 rounded to an element type of memory, still as f32; others as they are.
  Value round(Value value, mlir::Type element);
  /// Integers that are not negative as another integer type.
  Value convertIndex(Value integers, mlir::Type element);
  Value addElements(Value a, Value b);      // floats
  Value multiplyElements(Value a, Value b); // floats
  /// Combines all lanes: i with i + count/2, and so on, so that the order never depends on the instruction set.
  Value combineLanes(Value vector, Ref<Value(Value, Value)> combine);

  // Memory. A bool takes one byte, 0 or 1. bf16 and f16 are f32 in lanes, and rounded by a store. Offsets count elements.
  // Inactive lanes never touch memory; their values mean nothing. `evenness`: a power of two that the offset is a multiple of.
  Value load(Value pointer, mlir::Type element, Value offset, int64_t stride, Lanes lanes, unsigned evenness = 1);
  void store(Value pointer, mlir::Type element, Value offset, Value value, Lanes lanes, unsigned evenness = 1);
  Value loadPointer(Value table, Value index);
  /// A constant array in the kernel's module, and an element of it.
  Value table(llvm::ArrayRef<int64_t> values);
  Value loadInteger(Value table, Value index);
  /// Copies `extent` elements; the pieces may not overlap.
  void copy(Value from, Value fromOffset, Value to, Value toOffset, mlir::Type element, int64_t extent);

protected:
  mlir::Type indexType() { return builder_.getIntegerType(indexBits_); }
  Value address(Value pointer, mlir::Type element, Value offset);
  mlir::Type memoryType(mlir::Type element) const;

private:
  Value toLanes(Value memory, mlir::Type element);
  Value toMemory(Value value, mlir::Type element);
  unsigned alignment(mlir::Type memory, unsigned evenness) const;
  mlir::Type loadType(mlir::Type vector, unsigned evenness) const;
  Value mask(Lanes lanes);
  Value inactive(mlir::Type memory, unsigned count);

  mlir::OpBuilder &builder_;
  mlir::Location loc_;
  unsigned indexBits_;
  bool aligned_;
};

} // namespace tapeout::codegen
