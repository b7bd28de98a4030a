// RUN: tapeout-opt %s --tape-select-attention-kernels=hopper=true --tape-select-library-attention --tape-decompose --canonicalize --tape-form-fusion-groups --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// The kernels of attention's gradient read the parts of a split where they lie, and write where their gradients are joined. Layers
// share them. There is no scratch memory.
// CHECK-NOT:  "arena" "{{.*}}scratch"
// CHECK:      plan.program @step
// CHECK-NEXT: plan.attention causal(%[[QKV:.*]], %[[QKV]], %[[QKV]]) -> (%[[Y:.*]], %[[LSE:.*]]) scale
// CHECK-NEXT: plan.launch @[[OFQUERY:.*_attention_query_gradient]](%[[QKV]], %[[QKV]], %[[QKV]], %[[Y]], %[[LSE]], %[[Y]]) -> (%[[D:.*]], %[[ROWS:.*]]) {{.*}}flops = 35100
// CHECK-NEXT: plan.launch @[[OFKEYS:.*_attention_key_gradients]](%[[QKV]], %[[QKV]], %[[QKV]], %[[Y]], %[[ROWS]]) -> (%[[D]], %[[D]]) {{.*}}flops = 46620
// CHECK-NEXT: plan.launch @[[OFQUERY]](%[[QKV]], %[[QKV]], %[[QKV]], %[[Y]], %[[LSE]], %[[Y]]) -> (%[[E:.*]], %[[ROWS2:.*]]) {
// CHECK-NEXT: plan.launch @[[OFKEYS]](%[[QKV]], %[[QKV]], %[[QKV]], %[[Y]], %[[ROWS2]]) -> (%[[E]], %[[E]]) {
// CHECK-NOT:  plan.launch
// CHECK:      plan.kernel @[[OFQUERY]]
// CHECK:      places = array<i64: 0, 2880, 576, 64, 192, 2880, 576, 64, 384, 2880, 576, 64, 0, 960, 192, 64, 0, 960, 192, 64, 0, 2880, 576, 64>
// CHECK:      plan.kernel @[[OFKEYS]]
// CHECK:      places = array<i64: 0, 2880, 576, 64, 192, 2880, 576, 64, 384, 2880, 576, 64, 0, 960, 192, 64, 192, 2880, 576, 64, 384, 2880, 576, 64>
// CHECK-NOT:  plan.kernel
module attributes {tape.target = "cuda"} {
  func.func @step(%x: tensor<2x5x576xbf16> {tape.role = "input", tape.name = "x"})
      -> (tensor<2x5x576xbf16> {tape.name = "d"}, tensor<2x5x576xbf16> {tape.name = "e"}) {
    %0, %1, %2 = tape.split %x dim 2 into 3 : tensor<2x5x576xbf16>
    %q = tape.reshape %0 to [2, 5, 3, 64] : tensor<2x5x192xbf16>
    %k = tape.reshape %1 to [2, 5, 3, 64] : tensor<2x5x192xbf16>
    %v = tape.reshape %2 to [2, 5, 3, 64] : tensor<2x5x192xbf16>
    %y, %lse = tape.attention %q, %k, %v {causal = true, scale = 0.5} : tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>
    %d:3 = tape.attention_grad %q, %k, %v, %y, %lse, %y {causal = true, scale = 0.5} : tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x64xbf16>
    %dq = tape.reshape %d#0 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %dk = tape.reshape %d#1 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %dv = tape.reshape %d#2 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %dx = tape.concatenate %dq, %dk, %dv dim 2 : tensor<2x5x192xbf16>, tensor<2x5x192xbf16>, tensor<2x5x192xbf16>
    %e:3 = tape.attention_grad %q, %k, %v, %y, %lse, %y {causal = true, scale = 0.5} : tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x64xbf16>
    %eq = tape.reshape %e#0 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %ek = tape.reshape %e#1 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %ev = tape.reshape %e#2 to [2, 5, 192] : tensor<2x5x3x64xbf16>
    %ex = tape.concatenate %eq, %ek, %ev dim 2 : tensor<2x5x192xbf16>, tensor<2x5x192xbf16>, tensor<2x5x192xbf16>
    return %dx, %ex : tensor<2x5x576xbf16>, tensor<2x5x576xbf16>
  }
}
