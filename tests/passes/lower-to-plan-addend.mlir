// RUN: tapeout-opt %s --split-input-file --tape-decompose --canonicalize --tape-form-fusion-groups --tape-fuse-epilogues --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// Products that are added up share the memory of the sum, here of its transpose.
// CHECK:      plan.program @sum
// CHECK-NEXT: plan.matmul(%[[A:.*]], %[[B:.*]]) -> (%[[S:.*]]) sizes [3, 5, 2] strides [1, 3, 5, 1, 1, 3] batch []
// CHECK-NEXT: plan.matmul(%[[A]], %[[B]], %[[S]]) -> (%[[S]]) sizes [3, 5, 2] strides [1, 3, 5, 1, 1, 3] batch [] offsets [6, 10, 0] accumulate
// CHECK-NEXT: plan.matmul(%[[A]], %[[B]], %[[S]]) -> (%[[S]]) sizes [3, 5, 2] strides [1, 3, 5, 1, 1, 3] batch [] offsets [12, 20, 0] accumulate
// CHECK-NEXT: plan.launch @{{.*}}exp(%[[S]])
// CHECK-NOT:  plan.copy
func.func @sum(%a: tensor<6x3xf32> {tape.role = "input", tape.name = "a"}, %b: tensor<6x5xf32> {tape.role = "input", tape.name = "b"})
    -> (tensor<5x3xf32> {tape.name = "y"}) {
  %a0 = tape.slice %a from [0, 0] to [2, 3] : tensor<6x3xf32>
  %b0 = tape.slice %b from [0, 0] to [2, 5] : tensor<6x5xf32>
  %a1 = tape.slice %a from [2, 0] to [4, 3] : tensor<6x3xf32>
  %b1 = tape.slice %b from [2, 0] to [4, 5] : tensor<6x5xf32>
  %a2 = tape.slice %a from [4, 0] to [6, 3] : tensor<6x3xf32>
  %b2 = tape.slice %b from [4, 0] to [6, 5] : tensor<6x5xf32>
  %0 = tape.dot_general %a0, %b0 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x5xf32>
  %1 = tape.dot_general %a1, %b1 plus %0 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x5xf32>, tensor<3x5xf32>
  %2 = tape.dot_general %a2, %b2 plus %1 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x5xf32>, tensor<3x5xf32>
  %3 = tape.transpose %2 by [1, 0] : tensor<3x5xf32>
  %4 = tape.exp %3 : tensor<5x3xf32>
  return %4 : tensor<5x3xf32>
}

// -----

// What the caller wants is written by one instruction, so that such a sum is copied. As part of a concatenation it is not.
// CHECK:      plan.program @wanted
// CHECK-NEXT: plan.matmul({{.*}}) -> (%[[S:.*]]) sizes [3, 3, 2]
// CHECK-NEXT: plan.matmul({{.*}}, %[[S]]) -> (%[[S]]) {{.*}} accumulate
// CHECK-NEXT: plan.matmul({{.*}}) -> (%[[T:.*]]) {{.*}} offsets [0, 0, 9] {
// CHECK-NEXT: plan.matmul({{.*}}, %[[T]]) -> (%[[T]]) {{.*}} offsets [0, 0, 9] accumulate
// CHECK-NEXT: plan.matmul({{.*}}) -> (%[[T]]) {{.*}} batch [] {
// CHECK-NEXT: plan.copy(%[[S]])
// CHECK-NEXT: plan.copy(%[[T]])
func.func @wanted(%a: tensor<2x3xf32> {tape.role = "input", tape.name = "a"}, %b: tensor<2x3xf32> {tape.role = "input", tape.name = "b"})
    -> (tensor<3x3xf32> {tape.name = "y"}, tensor<6x3xf32> {tape.name = "z"}) {
  %0 = tape.dot_general %a, %a batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>
  %1 = tape.dot_general %b, %b plus %0 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>
  %2 = tape.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>
  %3 = tape.dot_general %b, %a plus %2 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>
  %4 = tape.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>
  %5 = tape.concatenate %4, %3 dim 0 : tensor<3x3xf32>, tensor<3x3xf32>
  return %1, %5 : tensor<3x3xf32>, tensor<6x3xf32>
}

// -----

// What is no product, or what others read, too, is added by an op of its own; so is what such a sum is added to.
// CHECK:      plan.program @others
// CHECK-NOT:  accumulate
// CHECK:      plan.matmul({{.*}} epilogue @{{.*}}add_add
// CHECK-NOT:  accumulate
// CHECK:      plan.program
// CHECK-NOT:  accumulate
func.func @others(%a: tensor<2x3xf32> {tape.role = "input", tape.name = "a"}, %b: tensor<3x3xf32> {tape.role = "input", tape.name = "b"})
    -> (tensor<3x3xf32> {tape.name = "y"}) {
  %0 = tape.dot_general %a, %a plus %b batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>
  %1 = tape.dot_general %a, %a plus %0 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>
  return %1 : tensor<3x3xf32>
}
func.func @readers(%a: tensor<2x3xf32> {tape.role = "input", tape.name = "a"}) -> (tensor<3x3xf32> {tape.name = "y"}, tensor<3x3xf32> {tape.name = "z"}) {
  %0 = tape.dot_general %a, %a batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>
  %1 = tape.dot_general %a, %a plus %0 batch [] x [] contract [0] x [0] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>
  return %0, %1 : tensor<3x3xf32>, tensor<3x3xf32>
}
