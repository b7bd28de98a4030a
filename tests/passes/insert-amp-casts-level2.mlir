// RUN: tapeout-opt %s --split-input-file --tape-insert-amp-casts=level=O2 --tape-verify-precision | FileCheck %s

// The model reads copies of parameters; the optimizer updates the parameters in f32, and the copies with them. A norm's
// gamma has no copy. What a function returns is widened again.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  %[[TABLE:arg[0-9]+]]: tensor<16x8xbf16> {tape.name = "copy/table", tape.role = "copy"}
// CHECK:       %[[X:.*]] = tape.embedding %[[TABLE]][%arg0] : tensor<16x8xbf16>
// CHECK-NEXT:  %[[WIDE:.*]] = tape.convert %[[X]] to f32
// CHECK-NEXT:  %[[Y:.*]], %{{.*}} = tape.rms_norm %[[WIDE]], %arg2 {{.*}} (tensor<4x8xf32>, tensor<8xf32>)
// CHECK-NEXT:  %[[LOW:.*]] = tape.convert %[[Y]] to bf16 : tensor<4x8xf32>
// CHECK-NEXT:  %[[READ:.*]] = tape.convert %[[LOW]] to f32 {tape.phase = "backward"}
// CHECK-NEXT:  tape.embedding_grad %arg0, %[[READ]]
// CHECK:       %[[NEW:.*]] = tape.sgd %arg1
// CHECK-NEXT:  %[[OUT:.*]] = tape.convert %[[LOW]] to f32
// CHECK-NEXT:  %[[COPY:.*]] = tape.convert %[[NEW]] to bf16 {tape.phase = "optimizer"}
// CHECK-NEXT:  return %[[OUT]], %[[NEW]], %[[COPY]]
func.func @step(%ids: tensor<4xi32> {tape.role = "input", tape.name = "tokens"},
                %table: tensor<16x8xf32> {tape.role = "parameter", tape.name = "table"},
                %gamma: tensor<8xf32> {tape.role = "parameter", tape.name = "gamma", tape.frozen},
                %lr: tensor<f64> {tape.role = "config", tape.name = "config"})
    -> (tensor<4x8xf32>, tensor<16x8xf32> {tape.updates = 1 : i64}) {
  %x = tape.embedding %table[%ids] : tensor<16x8xf32>, tensor<4xi32>
  %y, %rstd = tape.rms_norm %x, %gamma eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %g = tape.embedding_grad %ids, %y rows 16 {tape.phase = "backward"} : tensor<4xi32>, tensor<4x8xf32>
  %new = tape.sgd %table, %g, %lr, %lr {tape.phase = "optimizer"} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<f64>, tensor<f64>) -> tensor<16x8xf32>
  return %y, %new : tensor<4x8xf32>, tensor<16x8xf32>
}

// CHECK-LABEL: func.func @prepare
// CHECK-SAME:  (%arg0: tensor<16x8xf32> {tape.name = "table", tape.role = "parameter"}, %arg1: tensor<16x8xbf16> {tape.name = "copy/table", tape.role = "copy"})
// CHECK-SAME:  -> (tensor<16x8xbf16> {tape.updates = 1 : i64})
// CHECK-NEXT:  %[[COPY:.*]] = tape.convert %arg0 to bf16
// CHECK-NEXT:  return %[[COPY]]

// -----

// A norm in a residual stream returns as precise a tensor as it read, and so does its gradient: what adds up to the residual's
// gradient is low. Statistics and what the optimizer reads are f32.
// CHECK-LABEL: @residual
// CHECK:       %[[X:.*]] = tape.dot_general %{{.*}}, %{{.*}} batch {{.*}} : tensor<4x8xbf16>, tensor<8x8xbf16>
// CHECK:       %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = tape.layer_norm {{.*}} -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT:  %[[LOW:.*]] = tape.convert %[[Y]] to bf16 : tensor<4x8xf32>
// CHECK-NEXT:  %[[SUM:.*]] = tape.add %[[X]], %[[LOW]] : tensor<4x8xbf16>, tensor<4x8xbf16>
// CHECK:       %[[DX:.*]] = tape.layer_norm_grad %{{.*}}, %arg2, %[[MEAN]], %[[RSTD]], {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT:  %[[LOWDX:.*]] = tape.convert %[[DX]] to bf16 {tape.phase = "backward"}
// CHECK:       %[[DGAMMA:.*]], %{{.*}} = tape.layer_norm_param_grad %{{.*}}, %[[MEAN]], %[[RSTD]], {{.*}} -> (tensor<8xf32>, tensor<8xf32>)
// CHECK-NEXT:  %[[D:.*]] = tape.add %[[SUM]], %[[LOWDX]] {{.*}} : tensor<4x8xbf16>, tensor<4x8xbf16>
// CHECK:       %[[DW:.*]] = tape.dot_general %[[D]], {{.*}} to f32
// CHECK:       tape.sum_of_squares %[[DGAMMA]] {{.*}} : tensor<8xf32>
// CHECK-NEXT:  tape.sum_of_squares %[[DW]] {{.*}} : tensor<8x8xf32>
func.func @residual(%in: tensor<4x8xf32>, %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"},
                    %gamma: tensor<8xf32> {tape.role = "parameter", tape.name = "gamma"},
                    %beta: tensor<8xf32> {tape.role = "parameter", tape.name = "beta"}) -> (tensor<f32>, tensor<f32>) {
  %x = tape.dot_general %in, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<8x8xf32>
  %y, %mean, %rstd = tape.layer_norm %x, %gamma, %beta eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %dy = tape.add %x, %y : tensor<4x8xf32>, tensor<4x8xf32>
  %dx = tape.layer_norm_grad %x, %gamma, %mean, %rstd, %dy {tape.phase = "backward"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dgamma, %dbeta = tape.layer_norm_param_grad %x, %mean, %rstd, %dy {tape.phase = "backward"} : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %d = tape.add %dy, %dx {tape.phase = "backward"} : tensor<4x8xf32>, tensor<4x8xf32>
  %dw = tape.dot_general %d, %in batch [] x [] contract [0] x [0] {tape.phase = "backward"} : tensor<4x8xf32>, tensor<4x8xf32>
  %0 = tape.sum_of_squares %dgamma {tape.phase = "optimizer"} : tensor<8xf32>
  %1 = tape.sum_of_squares %dw {tape.phase = "optimizer"} : tensor<8x8xf32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// -----

// Behind a parameter of the whole shape, a norm's gradient is that parameter's, and is not rounded.
// CHECK-LABEL: @parameter
// CHECK:       %[[DX:.*]] = tape.rms_norm_grad
// CHECK-NEXT:  tape.sum_of_squares %[[DX]] {{.*}} : tensor<4x8xf32>
func.func @parameter(%in: tensor<4x8xf32>, %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"},
                     %positions: tensor<4x8xf32> {tape.role = "parameter", tape.name = "positions"},
                     %gamma: tensor<8xf32> {tape.role = "parameter", tape.name = "gamma"}) -> tensor<f32> {
  %0 = tape.dot_general %in, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<8x8xf32>
  %x = tape.add %0, %positions : tensor<4x8xf32>, tensor<4x8xf32>
  %y, %rstd = tape.rms_norm %x, %gamma eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %dx = tape.rms_norm_grad %x, %gamma, %rstd, %y {tape.phase = "backward"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tape.sum_of_squares %dx {tape.phase = "optimizer"} : tensor<4x8xf32>
  return %1 : tensor<f32>
}

// -----

// Norms of channels. Statistics stay f32, also where they have the operand's shape.
// CHECK-LABEL: @channels
// CHECK:       %[[MEAN:.*]], %[[VARIANCE:.*]], %{{.*}}, %{{.*}} = tape.batch_norm_statistics {{.*}} -> (tensor<8xf32>, {{.*}})
// CHECK:       %[[Y:.*]] = tape.batch_norm %{{.*}}, %[[MEAN]], %[[VARIANCE]], %arg2, %arg2 {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT:  %[[LOW:.*]] = tape.convert %[[Y]] to bf16 : tensor<4x8xf32>
// CHECK-NEXT:  %[[SUM:.*]] = tape.add %{{.*}}, %[[LOW]] : tensor<4x8xbf16>, tensor<4x8xbf16>
// CHECK:       %[[Z:.*]], %[[MEANS:.*]], %{{.*}} = tape.group_norm {{.*}} -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NEXT:  %[[LOWZ:.*]] = tape.convert %[[Z]] to bf16 : tensor<4x8xf32>
// CHECK-NEXT:  tape.add %[[SUM]], %[[LOWZ]] : tensor<4x8xbf16>, tensor<4x8xbf16>
// CHECK-NEXT:  tape.negate %[[MEANS]] : tensor<4x8xf32>
func.func @channels(%in: tensor<4x8xf32>, %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"},
                    %p: tensor<8xf32> {tape.role = "parameter", tape.name = "p"}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %x = tape.dot_general %in, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<8x8xf32>
  %mean, %variance, %m, %v = tape.batch_norm_statistics %x, %p, %p momentum 0.1 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %y = tape.batch_norm %x, %mean, %variance, %p, %p eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = tape.add %x, %y : tensor<4x8xf32>, tensor<4x8xf32>
  %z, %means, %rstds = tape.group_norm %0, %p, %p groups 8 eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %1 = tape.add %0, %z : tensor<4x8xf32>, tensor<4x8xf32>
  %2 = tape.negate %means : tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
