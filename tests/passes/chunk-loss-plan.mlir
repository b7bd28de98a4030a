// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-clip-gradients --tape-attach-optimizer=optimizer=sgd --canonicalize --cse --tape-insert-amp-casts --tape-chunk-loss=chunks=3 --tape-decompose --canonicalize --tape-read-rounded --tape-recompute-from-products --tape-form-fusion-groups --tape-fuse-epilogues --tape-fuse-multi-tensor --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// A table that is embedding and head, and a bias. The chunks stay one after the other up to the plan: the product of the logits,
// one kernel that writes their gradient over them, the bias's sum of columns, and two products. Rows are read and written where
// they lie, the weight's gradient is added up in f32, and the logits of all chunks have one place. Only losses are copied.
// CHECK:      plan.slot "arena" "value" tensor<4x8x128xbf16> at [[PLACE:[0-9]+]]{{$}}
// CHECK:      plan.slot "arena" "value" tensor<4x8x128xbf16> at [[PLACE]]{{$}}
// CHECK:      plan.slot "arena" "value" tensor<4x8x128xbf16> at [[PLACE]]{{$}}
// CHECK:      plan.program @step
// CHECK:      plan.matmul(%[[X:.*]], %[[W:.*]], %[[B:.*]]) -> (%[[Z0:.*]]) sizes [32, 128, 32] strides [32, 1, 1, 32, 128, 1] batch [] epilogue @{{.*}} bias
// CHECK-NEXT: plan.launch @{{.*}}(%[[Z0]], %{{.*}}, %[[G:.*]]) -> (%[[L0:.*]], %[[Z0]])
// CHECK-NEXT: plan.launch @[[SUM:.*convert_reduce]](%[[Z0]])
// CHECK-NEXT: plan.matmul(%[[Z0]], %[[W]]) -> (%[[DX:.*]]) sizes [32, 32, 128] strides [128, 1, 32, 1, 32, 1] batch [] {
// CHECK-NEXT: plan.matmul(%[[Z0]], %[[X]]) -> (%[[DW:.*]]) sizes [128, 32, 32] strides [1, 128, 32, 1, 32, 1] batch [] {
// CHECK-NEXT: plan.matmul(%[[X]], %[[W]], %[[B]]) -> (%[[Z1:.*]]) {{.*}} offsets [1024, 0, 0]
// CHECK-NEXT: plan.launch @{{.*}}(%[[Z1]], %{{.*}}, %[[G]]) -> (%[[L1:.*]], %[[Z1]])
// CHECK-NEXT: plan.launch @[[SUM]](%[[Z1]])
// CHECK-NEXT: plan.matmul(%[[Z1]], %[[W]]) -> (%[[DX]]) {{.*}} offsets [0, 0, 1024] {
// CHECK-NEXT: plan.matmul(%[[Z1]], %[[X]], %[[DW]]) -> (%[[DW]]) {{.*}} offsets [0, 1024, 0] accumulate
// CHECK-NEXT: plan.matmul(%[[X]], %[[W]], %[[B]]) -> (%[[Z2:.*]]) {{.*}} offsets [2048, 0, 0]
// CHECK-NEXT: plan.launch @{{.*}}(%[[Z2]], %{{.*}}, %[[G]]) -> (%[[L2:.*]], %[[Z2]])
// CHECK-NEXT: plan.launch @[[SUM]](%[[Z2]])
// CHECK-NEXT: plan.matmul(%[[Z2]], %[[W]]) -> (%[[DX]]) {{.*}} offsets [0, 0, 2048] {
// CHECK-NEXT: plan.matmul(%[[Z2]], %[[X]], %[[DW]]) -> (%[[DW]]) {{.*}} offsets [0, 2048, 0] accumulate
// CHECK-NEXT: plan.launch @{{.*}}concatenate(%[[L0]], %[[L1]], %[[L2]])
// CHECK-NOT:  concatenate
// CHECK:      plan.kernel

module attributes {tape.target = "cuda"} {
  func.func @forward(%tokens: tensor<12x8xi32> {tape.role = "input", tape.name = "tokens"},
                     %w: tensor<128x32xf32> {tape.role = "parameter", tape.name = "w"},
                     %b: tensor<128xf32> {tape.role = "parameter", tape.name = "b"}) -> (tensor<12x8x128xf32> {tape.name = "logits"}) {
    %0 = tape.embedding %w[%tokens] : tensor<128x32xf32>, tensor<12x8xi32>
    %1 = tape.dot_general %0, %w batch [] x [] contract [2] x [1] : tensor<12x8x32xf32>, tensor<128x32xf32>
    %2 = tape.broadcast_in_dim %b to [12, 8, 128] dims [2] : tensor<128xf32>
    %3 = tape.add %1, %2 : tensor<12x8x128xf32>, tensor<12x8x128xf32>
    return %3 : tensor<12x8x128xf32>
  }
}
