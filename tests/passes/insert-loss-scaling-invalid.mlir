// RUN: not tapeout-opt %s --tape-insert-loss-scaling=policy=-2 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not tapeout-opt %s --tape-insert-loss-scaling 2>&1 | FileCheck %s --check-prefix=ORDER

// POLICY: error: there is no loss scale '-2'; use torch, paddle or a positive number
// ORDER: error: insert-loss-scaling needs the gradients of @step as they are right after build-backward
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tape.negate %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
