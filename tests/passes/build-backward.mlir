// RUN: tapeout-opt %s --split-input-file --tape-attach-loss --tape-build-backward --canonicalize | FileCheck %s

// The weight's gradient contracts the batch; nothing is computed for the input.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  tensor<4x3xf32> {tape.gradient_of = 1 : i64}
// CHECK:       %[[DY:.*]] = tape.cross_entropy_grad
// CHECK-NOT:   tape.dot_general
// CHECK:       %[[DW:.*]] = tape.dot_general %[[DY]], %arg0 batch [] x [] contract [0] x [0] {tape.phase = "backward"}
// CHECK:       return %{{.*}}, %{{.*}}, %[[DW]]
func.func @forward(%x: tensor<2x3xf32> {tape.role = "input", tape.name = "x"},
                   %w: tensor<4x3xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2x4xf32> {
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A weight used twice sums both gradients.
// CHECK-LABEL: func.func @step
// CHECK:       tape.cross_entropy_grad
// CHECK:       %[[SUM:.*]] = tape.add %{{.*}}, %{{.*}} {tape.phase = "backward"}
// CHECK:       return %{{.*}}, %{{.*}}, %[[SUM]]
func.func @forward(%w: tensor<2x4xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<2x4xf32> {
  %y = tape.multiply %w, %w : tensor<2x4xf32>, tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A frozen parameter has no gradient, and neither has what only it feeds.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  -> (tensor<f32> {tape.name = "loss"}, tensor<f32> {tape.name = "count"}, tensor<2x4xf32> {tape.gradient_of = 1 : i64})
func.func @forward(%a: tensor<2x4xf32> {tape.role = "parameter", tape.name = "a", tape.frozen},
                   %b: tensor<2x4xf32> {tape.role = "parameter", tape.name = "b"}) -> tensor<2x4xf32> {
  %0 = tape.exp %a : tensor<2x4xf32>
  %1 = tape.add %0, %b : tensor<2x4xf32>, tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
