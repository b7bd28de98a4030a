// RUN: tapeout-opt %s --split-input-file --tape-decompose | FileCheck %s

// Softmax subtracts the row's maximum first; the phase is kept.
// CHECK-LABEL: @softmax
// CHECK: %[[MAX:.*]] = tape.reduce "max" %arg0 over [1] {tape.phase = "loss"}
// CHECK: tape.broadcast_in_dim %[[MAX]] to [2, 4] dims [0]
// CHECK: tape.subtract
// CHECK: %[[E:.*]] = tape.exp
// CHECK: tape.reduce "sum" %[[E]] over [1]
// CHECK: tape.divide %[[E]]
func.func @softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = tape.softmax %x {tape.phase = "loss"} : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// A long sum to one value becomes two, so that threads can share the first.
// CHECK-LABEL: @long
// CHECK: tape.reshape %arg0 to [16, 4096]
// CHECK: tape.reduce "sum" %{{.*}} over [1]
// CHECK: tape.reduce "sum" %{{.*}} over [0]
func.func @long(%x: tensor<65536xf32>) -> tensor<f32> {
  %0 = tape.reduce "sum" %x over [0] : tensor<65536xf32>
  return %0 : tensor<f32>
}

// -----

// Contracted dimensions that are not one stride are put in order by a transpose.
// CHECK-LABEL: @contract
// CHECK: %[[T:.*]] = tape.transpose %arg0 by [1, 0, 2]
// CHECK: tape.dot_general %[[T]], %arg1 batch [] x [] contract [1, 2] x [1, 2]
func.func @contract(%a: tensor<3x2x5xf32>, %b: tensor<4x3x5xf32>) -> tensor<2x4xf32> {
  %0 = tape.dot_general %a, %b batch [] x [] contract [0, 2] x [1, 2] : tensor<3x2x5xf32>, tensor<4x3x5xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// The statistics of channels are those of planes first: rows in memory, never a transpose.
// CHECK-LABEL: @statistics
// CHECK-NOT:   tape.transpose
// CHECK:       %[[PLANES:.*]] = tape.reduce "sum" %arg0 over [2, 3]
// CHECK:       tape.reduce "sum" %{{.*}} over [0] : tensor<4x3xf32>
// CHECK:       tape.reduce "sum" %{{.*}} over [2, 3]
// CHECK-NOT:   tape.transpose
func.func @statistics(%x: tensor<4x3x5x6xf32>, %r: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0:4 = tape.batch_norm_statistics %x, %r, %r momentum 1.0e-01
      : (tensor<4x3x5x6xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// Few weights and many positions: threads share the sum over positions, in parts that depend on the shapes only.
// CHECK-LABEL: @parts
// CHECK:       %[[TERMS:.*]] = tape.convolution_weight_grad %arg0, %arg1 kernel [3, 3] {{.*}} parts 6
// CHECK:       tape.reduce "sum" %[[TERMS]] over [0] : tensor<6x8x1x3x3xf32>
func.func @parts(%x: tensor<8x1x28x28xf32>, %dy: tensor<8x8x28x28xf32>) -> tensor<8x1x3x3xf32> {
  %0 = tape.convolution_weight_grad %x, %dy kernel [3, 3] strides [1, 1] padding [1, 1, 1, 1] parts 1 : tensor<8x1x28x28xf32>, tensor<8x8x28x28xf32>
  return %0 : tensor<8x1x3x3xf32>
}

// -----

// A global average is a row reduction.
// CHECK-LABEL: @global
// CHECK:       tape.reduce "sum" %arg0 over [2, 3]
// CHECK-NOT:   avg_pool
func.func @global(%x: tensor<4x3x5x6xf32>) -> tensor<4x3x1x1xf32> {
  %0 = tape.avg_pool %x window [5, 6] strides [1, 1] padding [0, 0, 0, 0] : tensor<4x3x5x6xf32>
  return %0 : tensor<4x3x1x1xf32>
}

// Products of causal attention leave out what the mask hides: scores above the diagonal, and zero probabilities.
// CHECK-LABEL: func @causal
func.func @causal(%q: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  // CHECK: tape.dot_general %arg0, %arg0 batch [0, 2] x [0, 2] contract [3] x [3] {triangle = "result"}
  // CHECK: tape.dot_general %{{.*}}, %arg0 batch [0, 1] x [0, 2] contract [3] x [1] {triangle = "lhs"}
  %0, %1 = tape.attention %q, %q, %q {causal = true, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
  return %0 : tensor<2x5x3x4xf32>
}

// CHECK-LABEL: func @full
func.func @full(%q: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  // CHECK-NOT: triangle
  %0, %1 = tape.attention %q, %q, %q {causal = false, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
  return %0 : tensor<2x5x3x4xf32>
}
