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
