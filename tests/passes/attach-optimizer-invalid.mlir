// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-attach-optimizer=optimizer=lion --verify-diagnostics

// An unknown optimizer is named, with those there are.
// expected-error@+1 {{there is no optimizer 'lion'; use adamw, adam, sgd, momentum or nesterov}}
func.func @forward(%w: tensor<2x4xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2x4xf32> {
  return %w : tensor<2x4xf32>
}
