// RUN: tapeout-opt %s --split-input-file --tape-elide-transposes | FileCheck %s

// x W^T: the product contracts the other dimension of the weight.
// CHECK-LABEL: @weight
// CHECK-NEXT: %[[Y:.*]] = tape.dot_general %arg0, %arg1 batch [] x [] contract [1] x [1]
// CHECK-NEXT: return %[[Y]]
func.func @weight(%x: tensor<8x3xf32>, %w: tensor<4x3xf32>) -> tensor<8x4xf32> {
  %0 = tape.transpose %w by [1, 0] : tensor<4x3xf32>
  %1 = tape.dot_general %x, %0 batch [] x [] contract [1] x [0] : tensor<8x3xf32>, tensor<3x4xf32>
  return %1 : tensor<8x4xf32>
}

// -----

// Heads first, on both sides: batch dimensions are renumbered, too.
// CHECK-LABEL: @heads
// CHECK-NEXT: tape.dot_general %arg0, %arg1 batch [0, 2] x [0, 2] contract [3] x [3]
func.func @heads(%q: tensor<2x5x4x3xf32>, %k: tensor<2x6x4x3xf32>) -> tensor<2x4x5x6xf32> {
  %0 = tape.transpose %q by [0, 2, 1, 3] : tensor<2x5x4x3xf32>
  %1 = tape.transpose %k by [0, 2, 3, 1] : tensor<2x6x4x3xf32>
  %2 = tape.dot_general %0, %1 batch [0, 1] x [0, 1] contract [3] x [2] : tensor<2x4x5x3xf32>, tensor<2x4x3x6xf32>
  return %2 : tensor<2x4x5x6xf32>
}

// -----

// Free dimensions in another order would give another result.
// CHECK-LABEL: @order
// CHECK: %[[T:.*]] = tape.transpose %arg0 by [1, 0, 2]
// CHECK: tape.dot_general %[[T]], %arg1 batch [] x [] contract [2] x [1]
func.func @order(%x: tensor<5x4x3xf32>, %w: tensor<6x3xf32>) -> tensor<4x5x6xf32> {
  %0 = tape.transpose %x by [1, 0, 2] : tensor<5x4x3xf32>
  %1 = tape.dot_general %0, %w batch [] x [] contract [2] x [1] : tensor<4x5x3xf32>, tensor<6x3xf32>
  return %1 : tensor<4x5x6xf32>
}

// -----

// Another reader keeps the transpose.
// CHECK-LABEL: @reader
// CHECK: %[[T:.*]] = tape.transpose %arg1 by [1, 0]
// CHECK: %[[Y:.*]] = tape.dot_general %arg0, %arg1
// CHECK: return %[[Y]], %[[T]]
func.func @reader(%x: tensor<8x3xf32>, %w: tensor<4x3xf32>) -> (tensor<8x4xf32>, tensor<3x4xf32>) {
  %0 = tape.transpose %w by [1, 0] : tensor<4x3xf32>
  %1 = tape.dot_general %x, %0 batch [] x [] contract [1] x [0] : tensor<8x3xf32>, tensor<3x4xf32>
  return %1, %0 : tensor<8x4xf32>, tensor<3x4xf32>
}
