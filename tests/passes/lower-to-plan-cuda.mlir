// RUN: tapeout-opt %s --split-input-file --tape-decompose --tape-form-fusion-groups --tape-fuse-epilogues --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// Parts of a split are read where they lie: rows of 4 elements, 36 apart. Batches that are one dimension in all three
// matrices are one; of two, the longer comes last.
// CHECK-LABEL: tape.target = "cuda"
// CHECK:      plan.program @step
// CHECK-NEXT: plan.matmul(%[[QKV:.*]], %[[QKV]]) -> (%[[S:.*]]) sizes [5, 5, 4] strides [36, 1, 1, 36, 5, 1] batch [2, 180, 180, 75, 3, 4, 4, 25] offsets [0, 12, 0]
// CHECK-NEXT: plan.matmul(%[[S]], %[[QKV]]) -> (%[[Y:.*]]) sizes [5, 4, 5] strides [5, 1, 36, 1, 12, 1] batch [2, 75, 180, 60, 3, 25, 4, 4] offsets [0, 24, 0]
// CHECK-NEXT: plan.matmul(%[[S]], %[[S]]) -> (%{{.*}}) sizes [5, 5, 5] strides [5, 1, 5, 1, 5, 1] batch [6, 25, 25, 25]
module attributes {tape.target = "cuda"} {
  func.func @step(%x: tensor<2x5x36xf32> {tape.role = "input", tape.name = "x"})
      -> (tensor<2x5x12xf32> {tape.name = "y"}, tensor<2x3x5x5xf32> {tape.name = "z"}) {
    %0, %1, %2 = tape.split %x dim 2 into 3 : tensor<2x5x36xf32>
    %q = tape.reshape %0 to [2, 5, 3, 4] : tensor<2x5x12xf32>
    %k = tape.reshape %1 to [2, 5, 3, 4] : tensor<2x5x12xf32>
    %v = tape.reshape %2 to [2, 5, 3, 4] : tensor<2x5x12xf32>
    %s = tape.dot_general %q, %k batch [0, 2] x [0, 2] contract [3] x [3] : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
    %o = tape.dot_general %s, %v batch [0, 1] x [0, 2] contract [3] x [1] : tensor<2x3x5x5xf32>, tensor<2x5x3x4xf32>
    %t = tape.transpose %o by [0, 2, 1, 3] : tensor<2x3x5x4xf32>
    %y = tape.reshape %t to [2, 5, 12] : tensor<2x5x3x4xf32>
    %z = tape.dot_general %s, %s batch [0, 1] x [0, 1] contract [3] x [2] : tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>
    return %y, %z : tensor<2x5x12xf32>, tensor<2x3x5x5xf32>
  }
}

// -----

// No product has an epilogue. A matrix whose rows and columns both have strides is copied first: here every other column.
// CHECK-LABEL: tape.target = "cuda"
// CHECK:      plan.program @step
// CHECK-NEXT: plan.launch @[[SLICE:.*slice.*]](%{{.*}}) -> (%[[EVEN:.*]])
// CHECK-NEXT: plan.matmul(%[[EVEN]], %{{.*}}) -> (%[[P:.*]]) sizes [3, 5, 4] strides [4, 1, 5, 1, 5, 1] batch []
// CHECK-NEXT: plan.launch @[[TANH:.*tanh.*]](%[[P]])
// CHECK-NOT:  epilogue
module attributes {tape.target = "cuda"} {
  func.func @step(%x: tensor<3x4x2xf32> {tape.role = "input", tape.name = "x"}, %w: tensor<4x5xf32> {tape.role = "parameter", tape.name = "w"})
      -> (tensor<3x5xf32> {tape.name = "y"}) {
    %0 = tape.slice %x from [0, 0, 0] to [3, 4, 1] : tensor<3x4x2xf32>
    %1 = tape.reshape %0 to [3, 4] : tensor<3x4x1xf32>
    %2 = tape.dot_general %1, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
    %3 = tape.tanh %2 : tensor<3x5xf32>
    return %3 : tensor<3x5xf32>
  }
}
