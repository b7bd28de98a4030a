// RUN: tapeout-opt %s --split-input-file --tape-verify-imported --verify-diagnostics

// Two arguments may not share a name.
// expected-error@+1 {{argument 1 of @forward has no name of its own: 'w'}}
func.func @forward(%a: tensor<2xf32> {tape.role = "parameter", tape.name = "w"},
                   %b: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}

// -----

// Every argument has a role.
// expected-error@+1 {{argument 0 of @forward is neither a parameter nor an input}}
func.func @forward(%a: tensor<2xf32> {tape.name = "w"}) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}

// -----

// Only tape ops are allowed.
func.func @forward(%a: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2xf32> {
  // expected-error@+1 {{'math.exp' is not an op of a model graph}}
  %0 = math.exp %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Every op needs a form on the target; all layers are listed.
module attributes {tape.target = "cuda"} {
  func.func @forward(%x: tensor<2x3x8x8xf32> {tape.role = "input", tape.name = "x"},
                     %w: tensor<4x3x3x3xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2x4x3x3xf32> {
    // expected-error@+1 {{'convolution' has no form on the target cuda; compile with --target cpu}}
    %0 = tape.convolution %x, %w strides [1, 1] padding [0, 0, 0, 0] : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>
    // expected-error@+1 {{'max_pool' has no form on the target cuda; compile with --target cpu}}
    %1:2 = tape.max_pool %0 window [2, 2] strides [2, 2] padding [0, 0, 0, 0] : tensor<2x4x6x6xf32>
    return %1#0 : tensor<2x4x3x3xf32>
  }
}

// -----

// expected-error@+1 {{there is no target 'abacus'}}
module attributes {tape.target = "abacus"} {
  func.func @forward(%x: tensor<2xf32> {tape.role = "input", tape.name = "x"}) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}
