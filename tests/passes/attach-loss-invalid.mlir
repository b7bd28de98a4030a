// RUN: tapeout-opt %s --split-input-file --tape-attach-loss --verify-diagnostics

// Without a forward function there is nothing to attach to.
// expected-error@+1 {{attach-loss needs a function @forward}}
module {
  func.func @other(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    return %x : tensor<2x4xf32>
  }
}
