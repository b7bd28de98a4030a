// TensorMap of runtime/plan.fbs: a matrix that a kernel for cuda takes as a tensor map, by value behind its pointers.
#pragma once

#include <cstdint>

namespace tapeout::codegen {

struct TensorMap {
  uint32_t argument; // of the kernel: operands, then results
  int64_t offset, rows, columns, rowStride; // in elements of the argument
  uint32_t boxRows, boxColumns; // a row of a box has 128 bytes
};

} // namespace tapeout::codegen
