// RUN: tapeout-opt %s --split-input-file --tape-insert-amp-casts --tape-verify-precision | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-insert-amp-casts=precision=fp16 --tape-verify-precision | FileCheck %s --check-prefix=FP16

// A product runs in low precision and its bias follows it; the function's result is what it was.
// CHECK-LABEL: @linear
// CHECK-DAG:  %[[X:.*]] = tape.convert %arg0 to bf16 : tensor<8x16xf32>
// CHECK-DAG:  %[[W:.*]] = tape.convert %arg1 to bf16 : tensor<4x16xf32>
// CHECK:      %[[Y:.*]] = tape.dot_general %[[X]], %[[W]] {{.*}} : tensor<8x16xbf16>, tensor<4x16xbf16>
// CHECK-NEXT: %[[B:.*]] = tape.convert %arg2 to bf16 : tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = tape.broadcast_in_dim %[[B]] {{.*}} : tensor<4xbf16>
// CHECK-NEXT: %[[S:.*]] = tape.add %[[Y]], %[[R]] : tensor<8x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT: %[[OUT:.*]] = tape.convert %[[S]] to f32
// CHECK-NEXT: return %[[OUT]] : tensor<8x4xf32>
// FP16-LABEL: @linear
// FP16: tape.dot_general {{.*}} : tensor<8x16xf16>, tensor<4x16xf16>
func.func @linear(%x: tensor<8x16xf32> {tape.role = "input", tape.name = "x"},
                  %w: tensor<4x16xf32> {tape.role = "parameter", tape.name = "w"},
                  %b: tensor<4xf32> {tape.role = "parameter", tape.name = "b"}) -> tensor<8x4xf32> {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<8x16xf32>, tensor<4x16xf32>
  %1 = tape.broadcast_in_dim %b to [8, 4] dims [1] : tensor<4xf32>
  %2 = tape.add %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// A weight that is read twice, once transposed, is cast once; so is an activation.
// CHECK-LABEL: @shared
// CHECK-COUNT-2: tape.convert {{.*}} to bf16
// CHECK-NOT:  to bf16
// CHECK:      %[[T:.*]] = tape.transpose %{{.*}} by [1, 0] : tensor<16x16xbf16>
// CHECK:      tape.dot_general %{{.*}}, %[[T]]
func.func @shared(%x: tensor<8x16xf32>, %w: tensor<16x16xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<8x16xf32>, tensor<16x16xf32>
  %1 = tape.transpose %w by [1, 0] : tensor<16x16xf32>
  %2 = tape.dot_general %x, %1 batch [] x [] contract [1] x [1] : tensor<8x16xf32>, tensor<16x16xf32>
  return %0, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Where f32 and bf16 meet, f32 wins: the residual of a level O1 model. A softmax is never narrow.
// CHECK-LABEL: @residual
// CHECK:      %[[Y:.*]] = tape.dot_general {{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK-NEXT: %[[Z:.*]] = tape.gelu %[[Y]] {approximate = "tanh"} : tensor<8x8xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = tape.convert %[[Z]] to f32
// CHECK-NEXT: %[[SUM:.*]] = tape.add %arg0, %[[WIDE]] : tensor<8x8xf32>, tensor<8x8xf32>
// CHECK-NEXT: tape.softmax %[[SUM]] : tensor<8x8xf32>
func.func @residual(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"}) -> tensor<8x8xf32> {
  %0 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32>
  %1 = tape.gelu %0 {approximate = "tanh"} : tensor<8x8xf32>
  %2 = tape.add %x, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  %3 = tape.softmax %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// A norm computes in f32, and at level O1 returns that whatever it read.
// CHECK-LABEL: @norm
// CHECK:      %[[X:.*]] = tape.dot_general {{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK:      %[[Y:.*]], %{{.*}}, %{{.*}} = tape.layer_norm
// CHECK-NEXT: %[[WIDE:.*]] = tape.convert %[[X]] to f32
// CHECK-NEXT: tape.add %[[WIDE]], %[[Y]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @norm(%x: tensor<8x8xf32>, %p: tensor<8xf32> {tape.role = "parameter", tape.name = "p"}) -> tensor<8x8xf32> {
  %0 = tape.dot_general %x, %x batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32>
  %1, %mean, %rstd = tape.layer_norm %0, %p, %p eps 1.0e-5 : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %2 = tape.add %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// A single number does not decide, and stays as exact as it is.
// CHECK-LABEL: @number
// CHECK: %[[C:.*]] = tape.constant 1.000000e-01 to f32
// CHECK: %[[Y:.*]] = tape.dot_general
// CHECK: tape.multiply %[[Y]], %[[C]] : tensor<8x8xbf16>, tensor<f32>
func.func @number(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c = tape.constant 0.1 to f32
  %0 = tape.dot_general %x, %x batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32>
  %1 = tape.multiply %0, %c : tensor<8x8xf32>, tensor<f32>
  return %1 : tensor<8x8xf32>
}

// -----

// A product that is a parameter's gradient, alone or in a sum, gives its sum in f32. That of an activation does not.
// CHECK-LABEL: @gradients
// CHECK: %[[A:.*]] = tape.dot_general {{.*}} contract [0] x [0] to f32 {{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK: %[[B:.*]] = tape.dot_general {{.*}} contract [1] x [0] {tape.phase = "backward"} : tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK: %[[C:.*]] = tape.dot_general {{.*}} contract [0] x [0] to f32
// CHECK: %[[SUM:.*]] = tape.add %[[A]], %[[C]] {{.*}} : tensor<8x8xf32>, tensor<8x8xf32>
// CHECK: tape.sum_of_squares %[[SUM]] {{.*}} : tensor<8x8xf32>
func.func @gradients(%x: tensor<8x8xf32>, %dy: tensor<8x8xf32>) -> tensor<f32> {
  %0 = tape.dot_general %dy, %x batch [] x [] contract [0] x [0] {tape.phase = "backward"} : tensor<8x8xf32>, tensor<8x8xf32>
  %1 = tape.dot_general %dy, %x batch [] x [] contract [1] x [0] {tape.phase = "backward"} : tensor<8x8xf32>, tensor<8x8xf32>
  %2 = tape.dot_general %1, %x batch [] x [] contract [0] x [0] {tape.phase = "backward"} : tensor<8x8xf32>, tensor<8x8xf32>
  %3 = tape.add %0, %2 {tape.phase = "backward"} : tensor<8x8xf32>, tensor<8x8xf32>
  %4 = tape.sum_of_squares %3 {tape.phase = "optimizer"} : tensor<8x8xf32>
  return %4 : tensor<f32>
}

// -----

// The log-sum-exp of an attention stays f32 on its way to the gradient.
// CHECK-LABEL: @attention
// CHECK: %[[Y:.*]], %[[LSE:.*]] = tape.attention {{.*}} : tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>
// CHECK: tape.attention_grad {{.*}}, %[[Y]], %[[LSE]], %{{.*}} : {{.*}} tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>, tensor<2x4x2x8xbf16>
func.func @attention(%q: tensor<2x4x2x8xf32>, %dy: tensor<2x4x2x8xf32>) -> tensor<2x4x2x8xf32> {
  %y, %lse = tape.attention %q, %q, %q {causal = true, scale = 0.35} : tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>
  %dq, %dk, %dv = tape.attention_grad %q, %q, %q, %y, %lse, %dy {causal = true, scale = 0.35, tape.phase = "backward"}
      : tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4xf32>, tensor<2x4x2x8xf32>
  return %dq : tensor<2x4x2x8xf32>
}
