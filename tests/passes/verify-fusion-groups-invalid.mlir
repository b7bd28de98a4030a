// RUN: tapeout-opt %s --split-input-file --verify-diagnostics --tape-verify-fusion-groups

// An op that is a kernel, in no group.
func.func @alone(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is in no fusion group}}
  %0 = tape.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Attention that was neither selected nor decomposed.
module attributes {tape.target = "cuda"} {
  func.func @attention(%q: tensor<2x5x3x8xbf16>) -> tensor<2x5x3x8xbf16> {
    // expected-error @+1 {{was not selected to be a library call; run decompose first}}
    %y, %lse = tape.attention %q, %q, %q {causal = true, scale = 0.5} : tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>, tensor<2x5x3x8xbf16>
    return %y : tensor<2x5x3x8xbf16>
  }
}

// -----

// What a product is added to is not where it writes: another one reads it, too.
func.func @addend(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tape.dot_general %x, %x batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32>
  // expected-error @+1 {{does not find what it is added to where it writes; run decompose first}}
  %1 = tape.dot_general %x, %x plus %0 batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A library call behind what a kernel computes.
func.func @inside(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tape.fusion(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %1 = tape.exp %a : tensor<4x4xf32>
    // expected-error @+1 {{cannot be part of a generated kernel}}
    %2 = tape.dot_general %1, %a batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32>
    tape.yield %2 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}
