// RUN: tapeout-opt %s --split-input-file --tape-select-attention-kernels=hopper=true | tapeout-opt --split-input-file | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-select-attention-kernels | FileCheck %s --check-prefix=OTHER

// The gradient of attention of 16 bits with heads of 64 elements is two kernels. Not all GPUs are Hopper GPUs without the option.
// OTHER-NOT: attention_query_gradient
// OTHER-NOT: attention_key_gradients
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @step
  // CHECK:      %[[Y:.*]], %[[LSE:.*]] = tape.attention %arg0, %arg1, %arg2 {
  // CHECK-NEXT: %[[DQ:.*]], %[[ROWS:.*]] = tape.attention_query_gradient %arg0, %arg1, %arg2, %[[Y]], %[[LSE]], %arg3 scale 5.000000e-01 {causal = true, tape.phase = "backward"} : {{.*}} tensor<2x3x72xf32>
  // CHECK-NEXT: %[[DK:.*]], %[[DV:.*]] = tape.attention_key_gradients %arg0, %arg1, %arg2, %arg3, %[[ROWS]] scale 5.000000e-01 {causal = true, tape.phase = "backward"} : {{.*}} tensor<2x2x3x72xf32>
  // CHECK-NEXT: return %[[DQ]], %[[DK]], %[[DV]]
  func.func @step(%q: tensor<2x72x3x64xbf16>, %k: tensor<2x72x3x64xbf16>, %v: tensor<2x72x3x64xbf16>, %d: tensor<2x72x3x64xbf16>)
      -> (tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>) {
    %y, %lse = tape.attention %q, %k, %v {causal = true, scale = 0.5} : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>
    %g:3 = tape.attention_grad %q, %k, %v, %y, %lse, %d {causal = true, scale = 0.5, tape.phase = "backward"} : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x3x72xf32>, tensor<2x72x3x64xbf16>
    return %g#0, %g#1, %g#2 : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>
  }

  // CHECK-LABEL: @full
  // CHECK: tape.attention_query_gradient {{.*}}causal = false
  // CHECK: tape.attention_key_gradients {{.*}}causal = false
  func.func @full(%q: tensor<2x5x3x64xf16>, %lse: tensor<2x3x5xf32>) -> tensor<2x5x3x64xf16> {
    %g:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q {causal = false, scale = 0.5} : tensor<2x5x3x64xf16>, tensor<2x5x3x64xf16>, tensor<2x5x3x64xf16>, tensor<2x5x3x64xf16>, tensor<2x3x5xf32>, tensor<2x5x3x64xf16>
    return %g#1 : tensor<2x5x3x64xf16>
  }
}

// -----

// Sums of a bias's gradient over batch and tokens take those of the kernels, each of 64 tokens; a kernel whose sums nobody reads
// gives none.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @bias
  // CHECK:      %{{.*}}, %[[ROWS:.*]], %[[QSUMS:.*]] = tape.attention_query_gradient {{.*}}sums
  // CHECK:      %{{.*}}, %{{.*}}, %[[SUMS:.*]]:2 = tape.attention_key_gradients {{.*}}sums
  // CHECK-DAG:  %[[Q:.*]] = tape.reshape %[[QSUMS]] to [2, 2, 192] : tensor<2x2x3x64xf32>
  // CHECK-DAG:  %[[K:.*]] = tape.reshape %[[SUMS]]#0 to [2, 2, 192] : tensor<2x2x3x64xf32>
  // CHECK-DAG:  %[[V:.*]] = tape.reshape %[[SUMS]]#1 to [2, 2, 192] : tensor<2x2x3x64xf32>
  // CHECK:      %[[ALL:.*]] = tape.concatenate %[[Q]], %[[K]], %[[V]] dim 2
  // CHECK-NEXT: tape.reduce "sum" %[[ALL]] over [0, 1] : tensor<2x2x576xf32>
  func.func @bias(%q: tensor<2x72x3x64xbf16>, %lse: tensor<2x3x72xf32>) -> (tensor<2x72x576xbf16>, tensor<576xf32>) {
    %g:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q {causal = true, scale = 0.5} : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x3x72xf32>, tensor<2x72x3x64xbf16>
    %dq = tape.reshape %g#0 to [2, 72, 192] : tensor<2x72x3x64xbf16>
    %dk = tape.reshape %g#1 to [2, 72, 192] : tensor<2x72x3x64xbf16>
    %dv = tape.reshape %g#2 to [2, 72, 192] : tensor<2x72x3x64xbf16>
    %d = tape.concatenate %dq, %dk, %dv dim 2 : tensor<2x72x192xbf16>, tensor<2x72x192xbf16>, tensor<2x72x192xbf16>
    %f = tape.convert %d to f32 : tensor<2x72x576xbf16>
    %s = tape.reduce "sum" %f over [0, 1] : tensor<2x72x576xf32>
    return %d, %s : tensor<2x72x576xbf16>, tensor<576xf32>
  }

  // CHECK-LABEL: @other_sums
  // CHECK-NOT: sums
  func.func @other_sums(%q: tensor<2x72x3x64xbf16>, %lse: tensor<2x3x72xf32>) -> (tensor<72x3x64xf32>, tensor<3x64xf32>) {
    %g:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q {causal = true, scale = 0.5} : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x3x72xf32>, tensor<2x72x3x64xbf16>
    %f = tape.convert %g#0 to f32 : tensor<2x72x3x64xbf16>
    %s = tape.reduce "sum" %f over [0] : tensor<2x72x3x64xf32>
    %e = tape.convert %g#1 to f32 : tensor<2x72x3x64xbf16>
    %m = tape.reduce "max" %e over [0, 1] : tensor<2x72x3x64xf32>
    return %s, %m : tensor<72x3x64xf32>, tensor<3x64xf32>
  }

  // A sum of 16 bits, and a sum of a gradient and something else.
  // CHECK-LABEL: @sums_of_others
  // CHECK-NOT: sums {
  // CHECK-NOT: sums,
  // CHECK: return
  func.func @sums_of_others(%q: tensor<2x72x3x64xbf16>, %lse: tensor<2x3x72xf32>) -> (tensor<3x64xbf16>, tensor<384xf32>) {
    %g:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q {causal = true, scale = 0.5} : tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x72x3x64xbf16>, tensor<2x3x72xf32>, tensor<2x72x3x64xbf16>
    %s = tape.reduce "sum" %g#0 over [0, 1] : tensor<2x72x3x64xbf16>
    %dk = tape.reshape %g#1 to [2, 72, 192] : tensor<2x72x3x64xbf16>
    %other = tape.reshape %q to [2, 72, 192] : tensor<2x72x3x64xbf16>
    %d = tape.concatenate %dk, %other dim 2 : tensor<2x72x192xbf16>, tensor<2x72x192xbf16>
    %f = tape.convert %d to f32 : tensor<2x72x384xbf16>
    %t = tape.reduce "sum" %f over [0, 1] : tensor<2x72x384xf32>
    return %s, %t : tensor<3x64xbf16>, tensor<384xf32>
  }
}

// -----

// f32, heads of 32 elements, keys that heads share, dropout and padding are left to the library or to decompose.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @others
  // CHECK-COUNT-5: tape.attention_grad
  // CHECK-NOT: tape.attention_query_gradient
  func.func @others(%f: tensor<2x5x4x64xf32>, %small: tensor<2x5x4x32xbf16>, %q: tensor<2x5x4x64xbf16>, %k: tensor<2x5x2x64xbf16>,
                    %lse: tensor<2x4x5xf32>, %seed: tensor<i64>, %step: tensor<i64>, %lengths: tensor<2xi32>)
      -> (tensor<2x5x4x64xf32>, tensor<2x5x4x32xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>) {
    %0:3 = tape.attention_grad %f, %f, %f, %f, %lse, %f {causal = true, scale = 0.5} : tensor<2x5x4x64xf32>, tensor<2x5x4x64xf32>, tensor<2x5x4x64xf32>, tensor<2x5x4x64xf32>, tensor<2x4x5xf32>, tensor<2x5x4x64xf32>
    %1:3 = tape.attention_grad %small, %small, %small, %small, %lse, %small {causal = true, scale = 0.5} : tensor<2x5x4x32xbf16>, tensor<2x5x4x32xbf16>, tensor<2x5x4x32xbf16>, tensor<2x5x4x32xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x32xbf16>
    %2:3 = tape.attention_grad %q, %k, %k, %q, %lse, %q {causal = true, scale = 0.5} : tensor<2x5x4x64xbf16>, tensor<2x5x2x64xbf16>, tensor<2x5x2x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x64xbf16>
    %3:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q random %seed, %step {causal = true, scale = 0.5, dropout = 0.1} : tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x64xbf16>
    %4:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q lengths %lengths : tensor<2xi32> {causal = true, scale = 0.5} : tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x4x5xf32>, tensor<2x5x4x64xbf16>
    return %0#0, %1#0, %2#0, %3#0, %4#0 : tensor<2x5x4x64xf32>, tensor<2x5x4x32xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>, tensor<2x5x4x64xbf16>
  }
}

// -----

// The cpu has no such kernels.
// CHECK-LABEL: @cpu
// CHECK: tape.attention_grad
func.func @cpu(%q: tensor<2x5x3x64xbf16>, %lse: tensor<2x3x5xf32>) -> tensor<2x5x3x64xbf16> {
  %g:3 = tape.attention_grad %q, %q, %q, %q, %lse, %q {causal = false, scale = 0.5} : tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x5x3x64xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x64xbf16>
  return %g#1 : tensor<2x5x3x64xbf16>
}
