// RUN: tapeout-opt %s --split-input-file --tape-widen-windows | FileCheck %s

// A convolution of bf16 runs in f32 and rounds its result.
// CHECK-LABEL: @narrow
// CHECK-DAG: %[[X:.*]] = tape.convert %arg0 to f32 : tensor<2x3x8x8xbf16>
// CHECK-DAG: %[[W:.*]] = tape.convert %arg1 to f32 : tensor<4x3x3x3xbf16>
// CHECK: %[[Y:.*]] = tape.convolution %[[X]], %[[W]] {{.*}} : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>
// CHECK: %[[R:.*]] = tape.convert %[[Y]] to bf16
// CHECK: return %[[R]]
func.func @narrow(%x: tensor<2x3x8x8xbf16>, %w: tensor<4x3x3x3xbf16>) -> tensor<2x4x8x8xbf16> {
  %0 = tape.convolution %x, %w strides [1, 1] padding [1, 1, 1, 1] : tensor<2x3x8x8xbf16>, tensor<4x3x3x3xbf16>
  return %0 : tensor<2x4x8x8xbf16>
}

// -----

// The index of a maximum is no float.
// CHECK-LABEL: @pooling
// CHECK: %[[Y:.*]], %[[INDEX:.*]] = tape.max_pool %{{.*}} : tensor<1x1x4x4xf32>
// CHECK: %[[R:.*]] = tape.convert %[[Y]] to f16
// CHECK: return %[[R]], %[[INDEX]]
func.func @pooling(%x: tensor<1x1x4x4xf16>) -> (tensor<1x1x2x2xf16>, tensor<1x1x2x2xi32>) {
  %0, %1 = tape.max_pool %x window [2, 2] strides [2, 2] padding [0, 0, 0, 0] : tensor<1x1x4x4xf16>
  return %0, %1 : tensor<1x1x2x2xf16>, tensor<1x1x2x2xi32>
}

// -----

// f32 stays as it is.
// CHECK-LABEL: @wide
// CHECK-NOT: tape.convert
func.func @wide(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32> {
  %0 = tape.avg_pool %x window [2, 2] strides [2, 2] padding [0, 0, 0, 0] : tensor<1x1x4x4xf32>
  return %0 : tensor<1x1x2x2xf32>
}
