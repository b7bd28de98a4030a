// RUN: tapeout-opt %s --split-input-file --tape-form-fusion-groups --tape-fuse-multi-tensor --tape-verify-fusion-groups | FileCheck %s

// Two updates of different sizes become one launch; a third that computes something else stays.
// CHECK-LABEL: @updates
// CHECK: tape.fusion(%{{.*}}) : (tensor<6xf32>) -> tensor<6xf32> {
// CHECK: %[[BOTH:.*]]:2 = tape.fusion(%arg0, %arg3, %arg1) attributes {tensors = 2 : i64} : (tensor<2x3xf32>, tensor<f32>, tensor<5xf32>) -> (tensor<2x3xf32>, tensor<5xf32>) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x3xf32>, %[[R:.*]]: tensor<f32>, %[[B:.*]]: tensor<5xf32>):
// CHECK-NEXT: %[[X:.*]] = tape.multiply %[[A]], %[[R]]
// CHECK-NEXT: %[[Y:.*]] = tape.multiply %[[B]], %[[R]]
// CHECK-NEXT: tape.yield %[[X]], %[[Y]]
// CHECK: return %[[BOTH]]#0, %{{.*}}, %[[BOTH]]#1
func.func @updates(%a: tensor<2x3xf32>, %b: tensor<5xf32>, %c: tensor<6xf32>, %rate: tensor<f32>)
    -> (tensor<2x3xf32>, tensor<6xf32>, tensor<5xf32>) {
  %0 = tape.multiply %a, %rate : tensor<2x3xf32>, tensor<f32>
  %1 = tape.exp %c : tensor<6xf32>
  %2 = tape.multiply %b, %rate : tensor<5xf32>, tensor<f32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<6xf32>, tensor<5xf32>
}

// -----

// Another rate, a result that somebody still reads, a reduction: each stays alone.
// CHECK-LABEL: @apart
// CHECK-NOT: tensors =
func.func @apart(%a: tensor<3xf32>, %b: tensor<5xf32>, %c: tensor<4x4xf32>, %rate: tensor<f32>, %other: tensor<f32>)
    -> (tensor<3xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = tape.multiply %a, %rate : tensor<3xf32>, tensor<f32>
  %1 = tape.multiply %b, %other : tensor<5xf32>, tensor<f32>
  %2 = tape.multiply %c, %rate : tensor<4x4xf32>, tensor<f32>
  %3 = tape.reduce "sum" %2 over [1] : tensor<4x4xf32>
  %4 = tape.dot_general %2, %3 batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4xf32>
  return %0, %1, %3, %4 : tensor<3xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Casts of parameters are ready at the start and become one launch there; the cast of an activation stays.
// CHECK-LABEL: @casts
// CHECK: %[[BOTH:.*]]:2 = tape.fusion(%arg1, %arg2) attributes {tensors = 2 : i64} : (tensor<4x8xf32>, tensor<8x4xf32>) -> (tensor<4x8xbf16>, tensor<8x4xbf16>)
// CHECK: tape.dot_general %{{.*}}, %[[BOTH]]#0
// CHECK: tape.dot_general %{{.*}}, %[[BOTH]]#1
func.func @casts(%x: tensor<2x8xbf16>, %a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<2x8xbf16> {
  %0 = tape.convert %a to bf16 : tensor<4x8xf32>
  %1 = tape.dot_general %x, %0 batch [] x [] contract [1] x [1] to f32 : tensor<2x8xbf16>, tensor<4x8xbf16>
  %2 = tape.convert %1 to bf16 : tensor<2x4xf32>
  %3 = tape.convert %b to bf16 : tensor<8x4xf32>
  %4 = tape.dot_general %2, %3 batch [] x [] contract [1] x [1] : tensor<2x4xbf16>, tensor<8x4xbf16>
  return %4 : tensor<2x8xbf16>
}
