// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-attach-optimizer="optimizer=sgd no-decay=*bais" --verify-diagnostics

// A pattern that matches nothing is most likely a typing error.
// expected-error@+1 {{the pattern '*bais' of --no-decay matches no trained parameter}}
func.func @forward(%w: tensor<2x4xf32> {tape.role = "parameter", tape.name = "bias"}) -> tensor<2x4xf32> {
  return %w : tensor<2x4xf32>
}
