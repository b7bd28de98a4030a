// RUN: tapeout-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{cannot shard dimension 2 of a tensor of rank 2}}
func.func private @f(tensor<8x4xf32, #tape.encoding<placement = [shard(2)], layout = []>>)

// -----

// expected-error@+1 {{dimension 0 is sharded over two mesh axes}}
func.func private @f(tensor<8x4xf32, #tape.encoding<placement = [shard(0), shard(0)], layout = []>>)

// -----

// expected-error@+1 {{a layout names every dimension once}}
func.func private @f(tensor<8x4xf32, #tape.encoding<placement = [], layout = [0, 0]>>)
