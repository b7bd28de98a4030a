// RUN: tapeout-opt %s --split-input-file --tape-select-library-attention | FileCheck %s

// 16-bit attention on cuda is one call of the library. f32, heads that are no multiple of 8 elements, grouped queries and
// dropout are not.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @step
  // CHECK: tape.attention %arg0, %arg0, %arg0 {causal = true, library,
  // CHECK: tape.attention_grad {{.*}}library
  // CHECK-NOT: library
  func.func @step(%q: tensor<2x5x3x8xbf16>, %f: tensor<2x5x3x8xf32>, %odd: tensor<2x5x3x4xbf16>, %k: tensor<2x5x1x8xbf16>,
                  %seed: tensor<i64>, %step: tensor<i64>) {
    %0, %1 = tape.attention %q, %q, %q {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %g:3 = tape.attention_grad %q, %q, %q, %0, %1, %0 {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x8xbf16>
    %2, %3 = tape.attention %f, %f, %f {causal = true, scale = 0.5} : tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>
    %4, %5 = tape.attention %odd, %odd, %odd {causal = true, scale = 0.5} : tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>
    %6, %7 = tape.attention %q, %k, %k {causal = false, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x1x8xbf16>, tensor<2x5x1x8xbf16>
    %8, %9 = tape.attention %q, %q, %q random %seed, %step {causal = true, scale = 0.5, dropout = 0.1} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    return
  }
}

// -----

// The cpu has no such library.
// CHECK-LABEL: @cpu
// CHECK-NOT: library
func.func @cpu(%q: tensor<2x5x3x8xbf16>) {
  %0, %1 = tape.attention %q, %q, %q {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
  return
}
