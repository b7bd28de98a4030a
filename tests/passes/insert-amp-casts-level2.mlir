// RUN: tapeout-opt %s --tape-insert-amp-casts=level=O2 --tape-verify-precision | FileCheck %s

// The model reads copies of parameters; the optimizer updates the parameters in f32, and the copies with them. A norm's
// gamma has no copy.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  %[[TABLE:arg[0-9]+]]: tensor<16x8xbf16> {tape.name = "copy/table", tape.role = "copy"}
// CHECK:       %[[X:.*]] = tape.embedding %[[TABLE]][%arg0] : tensor<16x8xbf16>
// CHECK-NEXT:  %[[WIDE:.*]] = tape.convert %[[X]] to f32
// CHECK-NEXT:  tape.rms_norm %[[WIDE]], %arg2 {{.*}} (tensor<4x8xf32>, tensor<8xf32>)
// CHECK:       %[[NEW:.*]] = tape.sgd %arg1
// CHECK-NEXT:  %[[COPY:.*]] = tape.convert %[[NEW]] to bf16 {tape.phase = "optimizer"}
// CHECK-NEXT:  return %{{.*}}, %[[NEW]], %[[COPY]]
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
