// RUN: tapeout-opt %s '--tape-insert-amp-casts=keep-fp32=blocks.?.head' --tape-verify-precision | FileCheck %s

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
