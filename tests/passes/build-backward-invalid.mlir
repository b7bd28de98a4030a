// RUN: tapeout-opt %s --split-input-file --tape-attach-loss --tape-build-backward --verify-diagnostics

// Every layer without a gradient is listed in one message.
// expected-error@+1 {{2 layer(s) have no gradient}}
func.func @forward(%a: tensor<2x4xf32> {tape.role = "parameter", tape.name = "a"}) -> tensor<2x4xf32> {
  // expected-note@+1 {{('tape.gelu_grad'); freeze the parameters before it}}
  %0 = tape.gelu_grad %a, %a {approximate = "none"} : tensor<2x4xf32>, tensor<2x4xf32>
  // expected-note@+1 {{('tape.gelu_grad'); freeze the parameters before it}}
  %1 = tape.gelu_grad %a, %a {approximate = "tanh"} : tensor<2x4xf32>, tensor<2x4xf32>
  %2 = tape.add %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// A parameter that the loss does not depend on would silently never train.
// expected-error@+1 {{the loss does not depend on parameter 'b'}}
func.func @forward(%a: tensor<2x4xf32> {tape.role = "parameter", tape.name = "a"},
                   %b: tensor<2x4xf32> {tape.role = "parameter", tape.name = "b"}) -> tensor<2x4xf32> {
  return %a : tensor<2x4xf32>
}
