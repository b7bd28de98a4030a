// RUN: not tapeout-opt %s --tape-insert-amp-casts=precision=fp8 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: not tapeout-opt %s --tape-insert-amp-casts=level=O3 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not tapeout-opt %s --tape-insert-amp-casts=keep-fp32=head 2>&1 | FileCheck %s --check-prefix=PATTERN

// PRECISION: error: there is no mixed precision 'fp8' at level 'O1'; use bf16 or fp16, and O1 or O2
// LEVEL: error: there is no mixed precision 'bf16' at level 'O3'; use bf16 or fp16, and O1 or O2
// PATTERN: error: the pattern 'head' of --keep-fp32 matches no layer
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tape.negate %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
