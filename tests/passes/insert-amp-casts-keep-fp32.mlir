// RUN: tapeout-opt %s '--tape-insert-amp-casts=keep-fp32=blocks.?.head' --tape-verify-precision | FileCheck %s
// RUN: tapeout-opt %s '--tape-insert-amp-casts=level=O2 keep-fp32=blocks.?.head' --tape-verify-precision | FileCheck %s --check-prefix=O2

// A layer that the user marked stays f32, its gradient too; the one before does not.
// CHECK-LABEL: @marked
// CHECK:      %[[A:.*]] = tape.dot_general {{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = tape.convert %[[A]] to f32
// CHECK-NEXT: tape.dot_general %[[WIDE]], %arg1 {{.*}} : tensor<8x8xf32>, tensor<8x8xf32>
func.func @marked(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<8x8xf32> {
  %0 = tape.dot_general %x, %x batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32> loc("blocks.0.body")
  %1 = tape.dot_general %0, %w batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32> loc("blocks.0.head")
  return %1 : tensor<8x8xf32>
}

// At level O2 a norm returns low precision where it read it, but not in such a layer.
// O2-LABEL: @norms
// O2:       %[[X:.*]] = tape.dot_general
// O2:       %[[Y:.*]], %{{.*}} = tape.rms_norm
// O2-NEXT:  %[[LOW:.*]] = tape.convert %[[Y]] to bf16
// O2-NEXT:  %[[SUM:.*]] = tape.add %[[X]], %[[LOW]] : tensor<8x8xbf16>, tensor<8x8xbf16>
// O2:       %[[Z:.*]], %{{.*}} = tape.rms_norm
// O2-NEXT:  %[[WIDE:.*]] = tape.convert %[[SUM]] to f32
// O2-NEXT:  tape.add %[[WIDE]], %[[Z]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @norms(%x: tensor<8x8xf32>, %gamma: tensor<8xf32> {tape.role = "parameter", tape.name = "gamma"}) -> tensor<8x8xf32> {
  %0 = tape.dot_general %x, %x batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32> loc("blocks.0.body")
  %1, %r = tape.rms_norm %0, %gamma eps 1.0e-5 : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) loc("blocks.0.body")
  %2 = tape.add %0, %1 : tensor<8x8xf32>, tensor<8x8xf32> loc("blocks.0.body")
  %3, %s = tape.rms_norm %2, %gamma eps 1.0e-5 : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) loc("blocks.0.head")
  %4 = tape.add %2, %3 : tensor<8x8xf32>, tensor<8x8xf32> loc("blocks.0.body")
  return %4 : tensor<8x8xf32>
}
