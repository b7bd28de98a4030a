#include "codegen/cuda/BlockTable.h"

#include <limits>

using namespace mlir;

namespace tapeout::codegen {

BlockTable::BlockTable(CudaKernelBuilder &kernel, ArrayRef<int64_t> blocks) : kernel_(kernel), tensors_(blocks.size()) {
  SmallVector<int64_t> firstBlocks;
  for (int64_t own : blocks) {
    firstBlocks.push_back(count_);
    count_ += own;
  }
  while (firstBlocks.size() % kWarp != 0)
    firstBlocks.push_back(std::numeric_limits<int32_t>::max());
  firstBlocks_ = kernel.table(firstBlocks);
}

std::pair<Value, Value> BlockTable::find() const {
  // As many tensors begin at or before this block as the threads of a warp count together.
  Value block = kernel_.blockIndex(), inWarp = kernel_.remainder(kernel_.threadIndex(), kWarp), begun;
  for (int64_t i = 0; i < tensors_; i += kWarp) {
    Value first = kernel_.loadInteger(firstBlocks_, kernel_.add(inWarp, kernel_.integer(i)));
    Value count = kernel_.countBits(kernel_.ballot(kernel_.notAbove(first, block)));
    begun = begun ? kernel_.add(begun, count) : count;
  }
  Value tensor = kernel_.subtract(begun, kernel_.integer(1));
  return {tensor, kernel_.subtract(block, kernel_.loadInteger(firstBlocks_, tensor))};
}

} // namespace tapeout::codegen
