// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-clip-gradients | FileCheck %s

// One norm over all gradients; each is scaled by the same factor, chosen on the device.
// CHECK-LABEL: func.func @step
// CHECK:       %[[SUM:.*]] = tape.sum_of_squares %[[GA:[0-9]+]], %[[GB:[0-9]+]]
// CHECK:       %[[NORM:.*]] = tape.sqrt %[[SUM]]
// CHECK:       %[[CLIP:.*]] = tape.hyperparameter %{{.*}}[10]
// CHECK:       %[[RATIO:.*]] = tape.divide
// CHECK:       %[[FACTOR:.*]] = tape.select
// CHECK:       %[[FACTOR2:.*]] = tape.select
// CHECK:       %[[A:.*]] = tape.multiply %[[GA]], %[[FACTOR2]]
// CHECK:       %[[B:.*]] = tape.multiply %[[GB]], %[[FACTOR2]]
// CHECK:       return %{{.*}}, %{{.*}}, %[[A]], %[[B]], %[[NORM]]
func.func @forward(%a: tensor<2x4xf32> {tape.role = "parameter", tape.name = "a"},
                   %b: tensor<2x4xf32> {tape.role = "parameter", tape.name = "b"}) -> tensor<2x4xf32> {
  %0 = tape.multiply %a, %b : tensor<2x4xf32>, tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
