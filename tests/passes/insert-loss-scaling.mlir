// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-insert-loss-scaling --tape-clip-gradients --tape-attach-optimizer=optimizer=sgd --canonicalize --tape-verify-train-step | FileCheck %s
// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-insert-loss-scaling=policy=paddle | FileCheck %s --check-prefix=PADDLE
// RUN: tapeout-opt %s --tape-attach-loss --tape-build-backward --tape-insert-loss-scaling=policy=1024 | FileCheck %s --check-prefix=FIXED

// The backward phase starts from the scale. Gradients are multiplied by its inverse once; the norm is that of the results,
// taken as they are scaled; clipping follows. A gradient that is not finite keeps every argument but the scale's.
// CHECK-LABEL: func.func @step
// CHECK-SAME:  %[[STEP:arg[0-9]+]]: tensor<i64> {tape.name = "step", tape.role = "counter"}
// CHECK-SAME:  %[[SCALE:arg[0-9]+]]: tensor<f32> {tape.init = {a = 6.553600e+04 : f64, b = 0.000000e+00 : f64, kind = "constant", stream = 0 : i64, tensor = ""}, tape.name = "loss_scale/scale", tape.role = "optimizer_state"}
// CHECK-SAME:  %[[GOOD:arg[0-9]+]]: tensor<i64> {tape.name = "loss_scale/good_steps", tape.role = "counter"}
// CHECK-SAME:  %[[SKIPPED:arg[0-9]+]]: tensor<i64> {tape.name = "loss_scale/skipped_steps", tape.role = "counter"}
// CHECK:       tape.divide %[[SCALE]], %{{.*}} {tape.phase = "backward"}
// CHECK:       %[[G:.*]] = tape.dot_general {{.*}} {tape.phase = "backward"}
// CHECK:       %[[WIDE:.*]] = tape.convert %[[SCALE]] to f64
// CHECK:       %[[INVERSE64:.*]] = tape.divide %{{.*}}, %[[WIDE]]
// CHECK:       %[[INVERSE:.*]] = tape.convert %[[INVERSE64]] to f32
// CHECK:       %[[U:.*]] = tape.multiply %[[G]], %[[INVERSE]]
// CHECK:       %[[ZEROS:.*]] = tape.sum_of_squares %[[G]] times %{{.*}} : tensor<f32> of
// CHECK:       %[[FOUND:.*]] = tape.compare "ne" %[[ZEROS]]
// CHECK:       tape.sum_of_squares %[[G]] times %[[INVERSE]] : tensor<f32> of
// CHECK:       %[[CLIPPED:.*]] = tape.multiply %[[U]], %{{.*}}
// CHECK:       %[[NEXT:.*]] = tape.add %[[STEP]]
// CHECK:       tape.select %[[FOUND]], %[[STEP]], %[[NEXT]]
// CHECK:       %[[NEW:.*]] = tape.sgd %{{.*}}, %[[CLIPPED]]
// CHECK:       tape.select %[[FOUND]], %{{.*}}, %[[NEW]]

// PADDLE-LABEL: func.func @step
// PADDLE-SAME:  a = 3.276800e+04
// PADDLE-SAME:  tape.name = "loss_scale/bad_steps", tape.role = "counter"
// PADDLE-DAG:   tape.constant 8.000000e-01
// PADDLE-DAG:   tape.constant 1.000000e+03

// A fixed scale is no state.
// FIXED-LABEL: func.func @step
// FIXED-NOT:   optimizer_state
// FIXED:       tape.constant 1.024000e+03
func.func @forward(%x: tensor<8x16xf32> {tape.role = "input", tape.name = "x"},
                   %w: tensor<4x16xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<8x4xf32> {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<8x16xf32>, tensor<4x16xf32>
  return %0 : tensor<8x4xf32>
}
