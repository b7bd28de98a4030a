// RUN: tapeout-opt %s --split-input-file --tape-decompose --tape-form-fusion-groups --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// Products read the parts of a split where they lie, as heads, and write a transposed result where it belongs: two
// products in all, and the copy to the output.
// CHECK:      plan.program @step
// CHECK-NEXT: plan.matmul(%[[QKV:.*]], %[[QKV]]) -> (%[[S:.*]]) sizes [5, 5, 4] strides [36, 1, 1, 36, 5, 1] batch [2, 180, 180, 75, 3, 4, 4, 25] offsets [0, 12, 0]
// CHECK-NEXT: plan.matmul(%[[S]], %[[QKV]]) -> (%[[Y:.*]]) sizes [5, 4, 5] strides [5, 1, 36, 1, 12, 1] batch [2, 75, 180, 60, 3, 25, 4, 4] offsets [0, 24, 0] triangle "lhs"
// CHECK-NEXT: plan.copy(%[[Y]])
func.func @step(%x: tensor<2x5x36xf32> {tape.role = "input", tape.name = "x"}) -> (tensor<2x5x12xf32> {tape.name = "y"}) {
  %0, %1, %2 = tape.split %x dim 2 into 3 : tensor<2x5x36xf32>
  %q = tape.reshape %0 to [2, 5, 3, 4] : tensor<2x5x12xf32>
  %k = tape.reshape %1 to [2, 5, 3, 4] : tensor<2x5x12xf32>
  %v = tape.reshape %2 to [2, 5, 3, 4] : tensor<2x5x12xf32>
  %s = tape.dot_general %q, %k batch [0, 2] x [0, 2] contract [3] x [3] : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
  %o = tape.dot_general %s, %v batch [0, 1] x [0, 2] contract [3] x [1] {triangle = "lhs"} : tensor<2x3x5x5xf32>, tensor<2x5x3x4xf32>
  %t = tape.transpose %o by [0, 2, 1, 3] : tensor<2x3x5x4xf32>
  %y = tape.reshape %t to [2, 5, 12] : tensor<2x5x3x4xf32>
  return %y : tensor<2x5x12xf32>
}

// -----

// Two products write the parts of a concatenation. The other concatenation has a part that is no product: it is a kernel.
// CHECK:      plan.matmul({{.*}}) -> (%[[C:.*]]) sizes [4, 3, 6] strides [6, 1, 3, 1, 6, 1] batch []
// CHECK-NEXT: plan.matmul({{.*}}) -> (%[[C]]) sizes [4, 3, 6] strides [6, 1, 3, 1, 6, 1] batch [] offsets [0, 0, 3]
// CHECK-NEXT: plan.launch @{{.*}}exp{{.*}}(%[[C]])
// CHECK:      plan.matmul({{.*}}) -> (%[[P:.*]]) sizes [4, 3, 6] strides [6, 1, 3, 1, 3, 1] batch []
// CHECK:      plan.launch @{{.*}}concatenate(%[[P]],
func.func @step(%x: tensor<4x6xf32> {tape.role = "input", tape.name = "x"}, %w: tensor<6x3xf32> {tape.role = "parameter", tape.name = "w"},
                %b: tensor<4x3xf32> {tape.role = "parameter", tape.name = "b"})
    -> (tensor<4x6xf32> {tape.name = "y"}, tensor<4x6xf32> {tape.name = "z"}) {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4x6xf32>, tensor<6x3xf32>
  %1 = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4x6xf32>, tensor<6x3xf32>
  %2 = tape.concatenate %0, %1 dim 1 : tensor<4x3xf32>, tensor<4x3xf32>
  %3 = tape.exp %2 : tensor<4x6xf32>
  %4 = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4x6xf32>, tensor<6x3xf32>
  %5 = tape.concatenate %4, %b dim 1 : tensor<4x3xf32>, tensor<4x3xf32>
  return %3, %5 : tensor<4x6xf32>, tensor<4x6xf32>
}
