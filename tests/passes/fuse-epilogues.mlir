// RUN: tapeout-opt %s --split-input-file --tape-form-fusion-groups --tape-fuse-epilogues --tape-verify-fusion-groups | FileCheck %s

// The bias and the activation join the product; both results leave.
// CHECK-LABEL: @bias
// CHECK-NEXT: %[[F:.*]]:2 = tape.fusion(%arg0, %arg1, %arg2) : {{.*}} -> (tensor<2x3x5xf32>, tensor<2x3x5xf32>) {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<2x3x4xf32>, %[[W:.*]]: tensor<4x5xf32>, %[[B:.*]]: tensor<5xf32>):
// CHECK-NEXT: %[[Y:.*]] = tape.dot_general %[[X]], %[[W]]
// CHECK-NEXT: %[[V:.*]] = tape.broadcast_in_dim %[[B]]
// CHECK-NEXT: tape.add %[[Y]], %[[V]]
// CHECK: return %[[F]]#0, %[[F]]#1
func.func @bias(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> (tensor<2x3x5xf32>, tensor<2x3x5xf32>) {
  %y = tape.dot_general %x, %w batch [] x [] contract [2] x [0] : tensor<2x3x4xf32>, tensor<4x5xf32>
  %v = tape.broadcast_in_dim %b to [2, 3, 5] dims [2] : tensor<5xf32>
  %0 = tape.add %y, %v : tensor<2x3x5xf32>, tensor<2x3x5xf32>
  %1 = tape.tanh %0 : tensor<2x3x5xf32>
  return %0, %1 : tensor<2x3x5xf32>, tensor<2x3x5xf32>
}

// -----

// A product that somebody else reads, too, stays whole; so does one that is reduced, and one with batches.
// CHECK-LABEL: @apart
// CHECK: %{{.*}} = tape.dot_general %arg0, %arg1
// CHECK: %{{.*}} = tape.dot_general %arg2, %arg1
// CHECK: %{{.*}} = tape.dot_general %arg3, %arg3
// CHECK-NOT: ^bb0{{.*}}:{{[[:space:]]+}}%{{.*}} = tape.dot_general
func.func @apart(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %z: tensor<3x4xf32>, %q: tensor<2x3x3xf32>)
    -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3xf32>, tensor<2x3x3xf32>) {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  %1 = tape.tanh %0 : tensor<3x5xf32>
  %2 = tape.dot_general %z, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  %3 = tape.reduce "sum" %2 over [1] : tensor<3x5xf32>
  %4 = tape.dot_general %q, %q batch [0] x [0] contract [2] x [2] : tensor<2x3x3xf32>, tensor<2x3x3xf32>
  %5 = tape.tanh %4 : tensor<2x3x3xf32>
  return %0, %1, %3, %5 : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3xf32>, tensor<2x3x3xf32>
}

// -----

// Positions [2] repeat inside a row of the product, which is 6 = 3 x 2 wide: no whole rows.
// CHECK-LABEL: @inside_rows
// CHECK: tape.dot_general
// CHECK: tape.fusion
func.func @inside_rows(%x: tensor<3x4xf32>, %w: tensor<4x3x2xf32>, %b: tensor<2xf32>) -> tensor<3x3x2xf32> {
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x3x2xf32>
  %v = tape.broadcast_in_dim %b to [3, 3, 2] dims [2] : tensor<2xf32>
  %0 = tape.add %y, %v : tensor<3x3x2xf32>, tensor<3x3x2xf32>
  return %0 : tensor<3x3x2xf32>
}

// -----

// Far apart: the operands of the product would have to live until the end.
// CHECK-LABEL: @far
// CHECK-NEXT: tape.dot_general
// CHECK-COUNT-6: tape.fusion
func.func @far(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %a: tensor<1xf32>, %b: tensor<2xf32>, %c: tensor<3xf32>, %d: tensor<4xf32>, %e: tensor<5xf32>)
    -> (tensor<1xf32>, tensor<2xf32>, tensor<3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<3x5xf32>) {
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  %0 = tape.exp %a : tensor<1xf32>
  %1 = tape.exp %b : tensor<2xf32>
  %2 = tape.exp %c : tensor<3xf32>
  %3 = tape.exp %d : tensor<4xf32>
  %4 = tape.exp %e : tensor<5xf32>
  %z = tape.exp %y : tensor<3x5xf32>
  return %0, %1, %2, %3, %4, %z : tensor<1xf32>, tensor<2xf32>, tensor<3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<3x5xf32>
}
