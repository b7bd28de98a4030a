// RUN: tapeout-opt %s --split-input-file --tape-select-library-attention | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-select-library-attention=head-size=256 | FileCheck %s --check-prefix=LARGE
// RUN: tapeout-opt %s --split-input-file --tape-select-library-attention=deterministic=false | FileCheck %s --check-prefix=OFF

// 16-bit attention on cuda is one call of the library, with fewer key heads, too. f32, heads that are no multiple of 8 elements,
// and other numbers of keys than of queries are not. Only gradients can be nondeterministic. Not every GPU has kernels for heads of more than 128 elements.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @step
  // CHECK: tape.attention %arg0, %arg0, %arg0 {causal = true, library,
  // CHECK: tape.attention_grad {{.*}}library
  // CHECK: tape.attention %arg0, %arg3, %arg3 {{.*}}library
  // CHECK-NOT: library
  // OFF: tape.attention %arg0, %arg0, %arg0 {causal = true, library, scale
  // OFF: tape.attention_grad {{.*}}library, nondeterministic
  // LARGE: tape.attention %arg5, %arg5, %arg5 {{.*}}library
  func.func @step(%q: tensor<2x5x3x8xbf16>, %f: tensor<2x5x3x8xf32>, %odd: tensor<2x5x3x4xbf16>, %k: tensor<2x5x1x8xbf16>,
                  %other: tensor<2x7x3x8xbf16>, %large: tensor<2x5x3x136xf16>) {
    %0, %1 = tape.attention %q, %q, %q {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %g:3 = tape.attention_grad %q, %q, %q, %0, %1, %0 {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x8xbf16>
    %2, %3 = tape.attention %q, %k, %k {causal = false, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x1x8xbf16>, tensor<2x5x1x8xbf16>
    %4, %5 = tape.attention %f, %f, %f {causal = true, scale = 0.5} : tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>
    %6, %7 = tape.attention %odd, %odd, %odd {causal = true, scale = 0.5} : tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>
    %8, %9 = tape.attention %q, %other, %other {causal = false, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x7x3x8xbf16>, tensor<2x7x3x8xbf16>
    %10, %11 = tape.attention %large, %large, %large {causal = true, scale = 0.5} : tensor<2x5x3x136xf16>, tensor<2x5x3x136xf16>, tensor<2x5x3x136xf16>
    return
  }
}

// -----

// With dropout the library's generator gets a seed for each stream and an offset for each step; forward and gradient the same.
// Without a key, and of streams beyond those that a seed can hold, nothing is selected.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @drops
  // CHECK-DAG:  %[[DISTANCE:.*]] = tape.constant 0x41F0000000000000
  // CHECK-DAG:  %[[OFFSET:.*]] = tape.multiply %arg2, %[[DISTANCE]]
  // CHECK-DAG:  %[[FIRST:.*]] = tape.add %arg1, %{{.*}}
  // CHECK:      tape.attention %arg0, %arg0, %arg0 random %[[FIRST]], %[[OFFSET]] {{.*}}library
  // CHECK:      %[[STREAM:.*]] = tape.constant 0x4358000000000000 to i64
  // CHECK-NEXT: %[[SECOND:.*]] = tape.add %arg1, %[[STREAM]]
  // CHECK-NEXT: tape.attention %arg0, %arg0, %arg0 random %[[SECOND]], %[[OFFSET]] {{.*}}library
  // CHECK-NEXT: tape.attention_grad {{.*}} random %[[FIRST]], %[[OFFSET]] {{.*}}library
  // CHECK-NEXT: tape.attention %arg0, %arg0, %arg0 {{{.*}}dropout
  // CHECK-NOT:  library
  func.func @drops(%q: tensor<2x5x3x8xbf16>, %seed: tensor<i64>, %step: tensor<i64>) {
    %0, %1 = tape.attention %q, %q, %q random %seed, %step {causal = true, scale = 0.5, dropout = 0.1} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %2, %3 = tape.attention %q, %q, %q random %seed, %step {causal = true, scale = 0.5, dropout = 0.1, stream = 3} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %g:3 = tape.attention_grad %q, %q, %q, %0, %1, %0 random %seed, %step {causal = true, scale = 0.5, dropout = 0.1} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x8xbf16>
    %4, %5 = tape.attention %q, %q, %q {causal = true, scale = 0.5, dropout = 0.1} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %6, %7 = tape.attention %q, %q, %q random %seed, %step {causal = true, scale = 0.5, dropout = 0.1, stream = 1024} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    return
  }
}

// -----

// Lengths stay within the tokens, whatever the data says.
module attributes {tape.target = "cuda"} {
  // CHECK-LABEL: @padded
  // CHECK:      %[[ONE:.*]] = tape.constant 1.0
  // CHECK:      %[[LEAST:.*]] = tape.maximum %arg1, %[[ONE]]
  // CHECK:      %[[TOKENS:.*]] = tape.constant 5.0
  // CHECK:      %[[FEW:.*]] = tape.compare "lt" %[[LEAST]], %[[TOKENS]]
  // CHECK:      %[[LENGTHS:.*]] = tape.select %[[FEW]], %[[LEAST]], %[[TOKENS]]
  // CHECK-NEXT: tape.attention %arg0, %arg0, %arg0 lengths %[[LENGTHS]] {{.*}}library
  // CHECK-NEXT: tape.attention_grad {{.*}} lengths %[[LENGTHS]] {{.*}}library
  func.func @padded(%q: tensor<2x5x3x8xbf16>, %lengths: tensor<2xi32>) {
    %0, %1 = tape.attention %q, %q, %q lengths %lengths : tensor<2xi32> {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    %g:3 = tape.attention_grad %q, %q, %q, %0, %1, %0 lengths %lengths : tensor<2xi32> {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x8xbf16>
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
