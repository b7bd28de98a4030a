// RUN: tapeout-opt %s --tape-form-fusion-groups --tape-verify-fusion-groups | FileCheck %s

// Each kernel is a group, constants move in, reshapes and products stay outside.
// CHECK-LABEL: @f
// CHECK: %[[Y:.*]] = tape.dot_general
// CHECK: %[[R:.*]] = tape.reshape %[[Y]] to [8]
// CHECK: tape.fusion(%[[R]]) : (tensor<8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[C:.*]] = tape.constant 2.000000e+00 to f32
// CHECK-NEXT: %[[M:.*]] = tape.multiply %[[A]], %[[C]]
// CHECK-NEXT: tape.yield %[[M]]
func.func @f(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<8xf32> {
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  %r = tape.reshape %y to [8] : tensor<2x4xf32>
  %c = tape.constant 2.0 to f32
  %0 = tape.multiply %r, %c : tensor<8xf32>, tensor<f32>
  return %0 : tensor<8xf32>
}
