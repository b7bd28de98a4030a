// RUN: tapeout-opt %s --split-input-file --tape-select-library-attention --tape-decompose --canonicalize --tape-form-fusion-groups --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// Attention reads the parts of a split where they lie, and its gradients are written where they are joined: no kernel at all.
module attributes {tape.target = "cuda"} {
  // CHECK:      %[[SCRATCH:.*]] = plan.slot "arena" "{{.*}}scratch" tensor<65568xf32> at
  // CHECK:      plan.program @step
  // CHECK-NEXT: plan.attention causal(%[[QKV:.*]], %[[QKV]], %[[QKV]]) -> (%[[Y:.*]], %[[LSE:.*]]) scale 5.000000e-01 sizes [2, 3, 3, 5, 8]
  // CHECK-SAME: places [0, 360, 72, 8, 24, 360, 72, 8, 48, 360, 72, 8, 0, 120, 24, 8] {{.*}}flops = 3420
  // CHECK-NEXT: plan.attention backward causal(%[[QKV]], %[[QKV]], %[[QKV]], %[[Y]], %[[LSE]], %[[Y]]) -> (%[[D:.*]], %[[D]], %[[D]]) scratch %[[SCRATCH]] scale
  // CHECK-SAME: places [0, 360, 72, 8, 24, 360, 72, 8, 48, 360, 72, 8, 0, 120, 24, 8, 0, 120, 24, 8, 0, 360, 72, 8, 24, 360, 72, 8, 48, 360, 72, 8] {{.*}}flops = 8280
  // CHECK-NOT:  plan.launch
  func.func @step(%x: tensor<2x5x72xbf16> {tape.role = "input", tape.name = "x"}) -> (tensor<2x5x72xbf16> {tape.name = "d"}) {
    %0, %1, %2 = tape.split %x dim 2 into 3 : tensor<2x5x72xbf16>
    %q = tape.reshape %0 to [2, 5, 3, 8] : tensor<2x5x24xbf16>
    %k = tape.reshape %1 to [2, 5, 3, 8] : tensor<2x5x24xbf16>
    %v = tape.reshape %2 to [2, 5, 3, 8] : tensor<2x5x24xbf16>
    %y, %lse = tape.attention %q, %k, %v {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %g:3 = tape.attention_grad %q, %k, %v, %y, %lse, %y {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x8xbf16>
    %dq = tape.reshape %g#0 to [2, 5, 24] : tensor<2x5x3x8xbf16>
    %dk = tape.reshape %g#1 to [2, 5, 24] : tensor<2x5x3x8xbf16>
    %dv = tape.reshape %g#2 to [2, 5, 24] : tensor<2x5x3x8xbf16>
    %d = tape.concatenate %dq, %dk, %dv dim 2 : tensor<2x5x24xbf16>, tensor<2x5x24xbf16>, tensor<2x5x24xbf16>
    return %d : tensor<2x5x72xbf16>
  }
}

// -----

// A key head serves two heads of the query; dropout reads the generator's seed (of this stream, the second of the model) and
// offset, which are computed once, and its scratch memory is for the whole batch.
module attributes {tape.target = "cuda"} {
  // CHECK:      plan.slot "arena" "{{.*}}scratch" tensor<82288xf32> at
  // CHECK:      plan.program @step
  // CHECK-NEXT: plan.launch @{{.*}}(%[[STEP:.*]]) -> (%[[OFFSET:.*]])
  // CHECK-NEXT: plan.launch @{{.*}}(%[[OLD:.*]]) -> (%[[SEED:.*]])
  // CHECK-NEXT: plan.attention(%{{.*}}, %[[SEED]], %[[OFFSET]]) -> {{.*}} scale 5.000000e-01 dropout 1.000000e-01 sizes [2, 4, 2, 5, 8]
  // CHECK-NEXT: plan.attention backward(%{{.*}}, %[[SEED]], %[[OFFSET]]) -> {{.*}} scratch %{{.*}} dropout 1.000000e-01 sizes [2, 4, 2, 5, 8]
  func.func @step(%q: tensor<2x5x4x8xbf16> {tape.role = "input", tape.name = "q"}, %k: tensor<2x5x2x8xbf16> {tape.role = "input", tape.name = "k"},
                  %seed: tensor<i64> {tape.role = "input", tape.name = "seed"}, %step: tensor<i64> {tape.role = "counter", tape.name = "step"})
      -> (tensor<2x5x2x8xbf16> {tape.name = "d"}) {
    %y, %lse = tape.attention %q, %k, %k random %seed, %step {causal = false, scale = 0.5, dropout = 0.1, stream = 1} : tensor<2x5x4x8xbf16>, tensor<2x5x2x8xbf16>, tensor<2x5x2x8xbf16>
    %g:3 = tape.attention_grad %q, %k, %k, %y, %lse, %y random %seed, %step {causal = false, scale = 0.5, dropout = 0.1, stream = 1} : tensor<2x5x4x8xbf16>, tensor<2x5x2x8xbf16>, tensor<2x5x2x8xbf16>, tensor<2x5x4x8xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x8xbf16>
    return %g#1 : tensor<2x5x2x8xbf16>
  }
}

// -----

// Lengths are read by forward and backward.
module attributes {tape.target = "cuda"} {
  // CHECK:      %[[GIVEN:.*]] = plan.slot "input" "lengths"
  // CHECK:      plan.launch @{{.*}}(%[[GIVEN]]) -> (%[[LENGTHS:.*]])
  // CHECK-NEXT: plan.attention padded(%{{.*}}, %[[LENGTHS]]) ->
  // CHECK-NEXT: plan.attention backward padded(%{{.*}}, %[[LENGTHS]]) ->
  func.func @step(%q: tensor<2x5x4x8xbf16> {tape.role = "input", tape.name = "q"}, %lengths: tensor<2xi32> {tape.role = "input", tape.name = "lengths"})
      -> (tensor<2x5x4x8xbf16> {tape.name = "d"}) {
    %y, %lse = tape.attention %q, %q, %q lengths %lengths : tensor<2xi32> {causal = false, scale = 0.5} : tensor<2x5x4x8xbf16>, tensor<2x5x4x8xbf16>, tensor<2x5x4x8xbf16>
    %g:3 = tape.attention_grad %q, %q, %q, %y, %lse, %y lengths %lengths : tensor<2xi32> {causal = false, scale = 0.5} : tensor<2x5x4x8xbf16>, tensor<2x5x4x8xbf16>, tensor<2x5x4x8xbf16>, tensor<2x5x4x8xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x8xbf16>
    return %g#1 : tensor<2x5x4x8xbf16>
  }
}
