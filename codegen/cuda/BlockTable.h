// Which blocks of a launch belong to which of many tensors: tensor after tensor, each with a number of blocks of its own.
#pragma once

#include "codegen/cuda/CudaKernelBuilder.h"

namespace tapeout::codegen {

class BlockTable {
public:
  using Value = mlir::Value;

  BlockTable(CudaKernelBuilder &kernel, llvm::ArrayRef<int64_t> blocks);
  /// Of all tensors.
  int64_t count() const { return count_; }
  /// The tensor of this block, and the block's number among those of the tensor. All threads of the warp take part.
  std::pair<Value, Value> find() const;

private:
  CudaKernelBuilder &kernel_;
  int64_t tensors_, count_ = 0;
  Value firstBlocks_;
};

} // namespace tapeout::codegen
