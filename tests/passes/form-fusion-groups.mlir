// RUN: tapeout-opt %s --split-input-file --tape-form-fusion-groups=merge=false --tape-verify-fusion-groups | FileCheck %s

// Each kernel is a group; reshapes, constants and broadcasts are read through, products stay outside.
// CHECK-LABEL: @singles
// CHECK: %[[Y:.*]] = tape.dot_general
// CHECK: tape.fusion(%[[Y]], %arg2) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<8xf32> {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x4xf32>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[R:.*]] = tape.reshape %[[A]] to [8]
// CHECK-NEXT: %[[V:.*]] = tape.broadcast_in_dim %[[B]] to [2, 4] dims [1]
// CHECK-NEXT: %[[F:.*]] = tape.reshape %[[V]] to [8]
// CHECK-NEXT: %[[M:.*]] = tape.multiply %[[R]], %[[F]]
// CHECK-NEXT: tape.yield %[[M]]
func.func @singles(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  %r = tape.reshape %y to [8] : tensor<2x4xf32>
  %v = tape.broadcast_in_dim %b to [2, 4] dims [1] : tensor<4xf32>
  %f = tape.reshape %v to [8] : tensor<2x4xf32>
  %0 = tape.multiply %r, %f : tensor<8xf32>, tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A product reads memory, through a transpose by its strides; a reshape is an alias.
// CHECK-LABEL: @memory
// CHECK: %[[E:.*]] = tape.fusion(%arg1) : (tensor<12xf32>) -> tensor<12xf32> {
// CHECK: %[[T:.*]] = tape.transpose %arg0
// CHECK: %[[R:.*]] = tape.reshape %[[E]] to [4, 3]
// CHECK: tape.dot_general %[[T]], %[[R]]
func.func @memory(%x: tensor<3x2xf32>, %w: tensor<12xf32>) -> tensor<2x4xf32> {
  %t = tape.transpose %x by [1, 0] : tensor<3x2xf32>
  %e = tape.exp %w : tensor<12xf32>
  %r = tape.reshape %e to [4, 3] : tensor<12xf32>
  %y = tape.dot_general %t, %r batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return %y : tensor<2x4xf32>
}
