// The words of kernels on a GPU: threads of a block, what they exchange, memory that they share.
#pragma once

#include "codegen/kernel/KernelBuilder.h"

namespace tapeout::codegen {

inline constexpr unsigned kWarp = 32; // threads that exchange values without a barrier
/// Of a block, beside small static arrays: every GPU of compute capability 8.0 or more has 99 KB.
inline constexpr int64_t kDynamicSharedBytes = 98 * 1024 + 512;

class CudaKernelBuilder : public KernelBuilder {
public:
  CudaKernelBuilder(mlir::OpBuilder &builder, mlir::Location loc, unsigned indexBits)
      : KernelBuilder(builder, loc, indexBits, /*aligned=*/true) {}

  Value threadIndex(); // in the block
  Value blockIndex();
  /// All threads of the block arrive before any goes on; memory of the block is then as all have left it.
  void barrier();

  /// What the thread whose index in the warp differs in the bits of `distance` has. All threads of the warp take part.
  Value shuffleXor(Value scalar, unsigned distance);
  /// Combines the values of each `width` neighbouring threads of a warp, a power of two; all get the same bits.
  Value combineThreads(Value scalar, unsigned width, Ref<Value(Value, Value)> combine);
  /// Combines the values of all `threads` threads of the block, whole warps; all get the same bits.
  Value combineBlock(Value scalar, unsigned threads, Ref<Value(Value, Value)> combine);
  /// Bit i: the condition of the warp's thread i. An integer of 32 bits.
  Value ballot(Value condition);
  Value countBits(Value bits);
  /// The bits of the threads of the warp before this one.
  Value bitsBefore(Value bits);
  /// The threads of the warp that have the same integer, as bits. All threads of the warp take part.
  Value matchBits(Value integer);
  /// All threads of the warp arrive before any goes on; memory is then as they have left it.
  void warpBarrier();

  /// Memory of `count` elements that the threads of a block share, aligned to 16 bytes.
  Value sharedArray(mlir::Type element, int64_t count);
  /// The same, of a size that the launch asks for: for more than 48 KB. All together at most kDynamicSharedBytes.
  Value dynamicSharedArray(mlir::Type element, int64_t count);
  int64_t dynamicSharedBytes() const { return dynamicSharedBytes_; }
  /// Starts to copy `count` elements from global to shared memory. Both are aligned to so many bytes, or to 16.
  void copyAsync(Value shared, Value place, Value global, Value offset, mlir::Type element, int64_t count);
  /// Whether `count` elements may have so many bytes.
  static bool canCopyAsync(int64_t bytes) { return bytes == 4 || bytes == 8 || bytes % 16 == 0; }
  /// The copies that this thread has started have come to their end.
  void waitForCopies();
  /// The pointer as one into global memory, which a pointer that was itself loaded does not tell the backend.
  Value globalPointer(Value pointer);

  Value below(Value a, Value b);    // a < b
  Value notAbove(Value a, Value b); // a <= b
  Value same(Value a, Value b);     // a == b
  Value both(Value a, Value b);     // conditions
  Value either(Value a, Value b);
  Value select(Value condition, Value a, Value b); // a condition for all lanes

private:
  Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange arguments);
  Value integer32(int64_t value);
  Value sharedPointer(mlir::Type array, llvm::StringRef name, bool isDynamic);

  int64_t dynamicSharedBytes_ = 0;
};

/// The name of a kernel's dynamic shared memory.
std::string dynamicSharedName(llvm::StringRef symbol);

} // namespace tapeout::codegen
