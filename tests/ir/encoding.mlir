// RUN: tapeout-opt %s | tapeout-opt | FileCheck %s

// An encoding prints as it was written.
// CHECK: tensor<8x4xf32, #tape.encoding<placement = [shard(0), partial(sum), replicate, partial(max)], layout = [1, 0]>>
func.func private @f(tensor<8x4xf32, #tape.encoding<placement = [shard(0), partial(sum), replicate, partial(max)], layout = [1, 0]>>)
