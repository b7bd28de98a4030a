// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-attach-optimizer="optimizer=adamw no-decay=*bias" --canonicalize --cse --tape-verify-train-step | FileCheck %s
// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-attach-optimizer=optimizer=nesterov | FileCheck %s --check-prefix=SGD

// State arguments are added, updates are tied to their arguments, and a parameter without decay gets the constant 0.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  {tape.name = "adamw.m/weight", tape.role = "optimizer_state"}
// CHECK-SAME:  {tape.name = "adamw.v/bias", tape.role = "optimizer_state"}
// CHECK-SAME:  tensor<f64> {tape.name = "lr"}, tensor<i64> {tape.updates = 4 : i64}, tensor<2x4xf32> {tape.updates = 0 : i64}
// CHECK:       %[[ZERO:.*]] = tape.constant 0.000000e+00 to f64
// CHECK:       %[[LR:.*]] = tape.learning_rate
// CHECK:       %[[DECAY:.*]] = tape.hyperparameter %{{.*}}[5]
// CHECK:       tape.adam %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[LR]], %[[DECAY]],
// CHECK-SAME:  decoupled = true
// CHECK:       tape.adam %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[LR]], %[[ZERO]],
// SGD:         tape.sgd_momentum {{.*}}nesterov = true
func.func @forward(%w: tensor<2x4xf32> {tape.role = "parameter", tape.name = "weight"},
                   %b: tensor<2x4xf32> {tape.role = "parameter", tape.name = "bias"}) -> tensor<2x4xf32> {
  %0 = tape.add %w, %b : tensor<2x4xf32>, tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
