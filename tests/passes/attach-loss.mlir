// RUN: tapeout-opt %s --split-input-file --tape-attach-loss | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-attach-loss=label-smoothing=0.1 | FileCheck %s --check-prefix=SMOOTH
// RUN: tapeout-opt %s --split-input-file --tape-attach-loss=loss=mean_squared_error | FileCheck %s --check-prefix=MSE

// The loss is the sum over counted positions divided by their number, never less than one.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  tensor<2xi32> {tape.name = "labels", tape.role = "input"}
// CHECK-SAME:  tensor<32xf64> {tape.name = "config", tape.role = "config"}
// CHECK-SAME:  tensor<i64> {tape.name = "step", tape.role = "counter"}
// CHECK:       %[[LOSSES:.*]], %{{.*}} = tape.cross_entropy %{{.*}}, %{{.*}} ignore -100
// CHECK:       %[[SUM:.*]] = tape.reduce "sum" %[[LOSSES]] over [0]
// CHECK:       %[[COUNT:.*]] = tape.reduce "sum" %{{.*}} over [0]
// CHECK:       %[[ATLEASTONE:.*]] = tape.maximum %[[COUNT]]
// CHECK:       %[[LOSS:.*]] = tape.divide %[[SUM]], %[[ATLEASTONE]]
// CHECK:       return %[[LOSS]], %[[COUNT]]
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME:  {tape.name = "loss_sum"}
// CHECK-NOT:   @forward
// Labels are smoothed while training only: evaluations stay comparable.
// SMOOTH-LABEL: func.func @step
// SMOOTH:       tape.cross_entropy %{{.*}} ignore -100 {smoothing = 1.000000e-01 : f64,
// SMOOTH-LABEL: func.func @evaluate
// SMOOTH:       tape.cross_entropy %{{.*}} ignore -100 :
// MSE-LABEL:   func.func @step
// MSE-SAME:    tensor<2x4xf32> {tape.name = "labels"
// MSE:         tape.subtract
func.func @forward(%x: tensor<2x4xf32> {tape.role = "parameter", tape.name = "x"}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

// -----

// Every random op of the step gets the seed, the counter and a stream of its own; evaluation draws nothing.
// CHECK-LABEL: func.func @step
// CHECK:       %[[SEED:.*]] = tape.convert %{{.*}} to i64
// CHECK:       tape.dropout %{{.*}} rate 5.000000e-01 random %[[SEED]], %{{.*}} : tensor
// CHECK:       tape.dropout %{{.*}} rate 5.000000e-01 random %[[SEED]], %{{.*}} {stream = 1 : i64}
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:   random
func.func @forward(%x: tensor<2x4xf32> {tape.role = "parameter", tape.name = "x"}) -> tensor<2x4xf32> {
  %0 = tape.dropout %x rate 5.0e-01 : tensor<2x4xf32>
  %1 = tape.dropout %0 rate 5.0e-01 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Training updates running statistics; evaluation reads them instead of taking new ones.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  {tape.updates = 1 : i64}, tensor<3xf32> {tape.updates = 2 : i64})
// CHECK:       %[[MEAN:.*]], %[[VARIANCE:.*]], %[[NEWMEAN:.*]], %[[NEWVARIANCE:.*]] = tape.batch_norm_statistics %arg0, %arg1, %arg2
// CHECK:       tape.batch_norm %arg0, %[[MEAN]], %[[VARIANCE]]
// CHECK:       return %{{.*}}, %{{.*}}, %[[NEWMEAN]], %[[NEWVARIANCE]]
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:   batch_norm_statistics
// CHECK:       tape.batch_norm %arg0, %arg1, %arg2, %arg3, %arg3
func.func @forward(%x: tensor<4x3xf32> {tape.role = "input", tape.name = "x"},
                   %mean: tensor<3xf32> {tape.role = "parameter", tape.name = "mean", tape.statistic},
                   %variance: tensor<3xf32> {tape.role = "parameter", tape.name = "variance", tape.statistic},
                   %gamma: tensor<3xf32> {tape.role = "parameter", tape.name = "gamma"}) -> tensor<4x3xf32> {
  %0:4 = tape.batch_norm_statistics %x, %mean, %variance momentum 1.0e-01
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %1 = tape.batch_norm %x, %0#0, %0#1, %gamma, %gamma eps 1.0e-05
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
