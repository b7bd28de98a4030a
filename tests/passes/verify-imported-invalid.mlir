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
