// RUN: tapeout-opt %s --split-input-file --tape-recompute-from-products | FileCheck %s

// The biased product is not kept: its gelu's gradient adds the bias again.
// CHECK-LABEL: func.func @bias
// CHECK: %[[P:.*]] = tape.dot_general
// CHECK: %[[V:.*]] = tape.add %[[P]]
// CHECK: tape.gelu %[[V]]
// CHECK: %[[W:.*]] = tape.add %[[P]], %{{.*}} {tape.phase = "backward"}
// CHECK: tape.gelu_grad %[[W]]
module attributes {tape.target = "cuda"} {
  func.func @bias(%x: tensor<64x32xbf16>, %w: tensor<32x128xbf16>, %b: tensor<128xbf16>, %dy: tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>) {
    %p = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x32xbf16>, tensor<32x128xbf16>
    %c = tape.broadcast_in_dim %b to [64, 128] dims [1] : tensor<128xbf16>
    %v = tape.add %p, %c : tensor<64x128xbf16>, tensor<64x128xbf16>
    %y = tape.gelu %v {approximate = "tanh"} : tensor<64x128xbf16>
    %dv = tape.gelu_grad %v, %dy {approximate = "tanh", tape.phase = "backward"} : tensor<64x128xbf16>, tensor<64x128xbf16>
    return %y, %dv : tensor<64x128xbf16>, tensor<64x128xbf16>
  }
}

// -----

// Products of the cpu hand their pieces on and are not in memory.
// CHECK-LABEL: func.func @cpu
// CHECK-COUNT-1: tape.add
// CHECK-NOT: tape.add
module {
  func.func @cpu(%x: tensor<64x32xbf16>, %w: tensor<32x128xbf16>, %b: tensor<128xbf16>, %dy: tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>) {
    %p = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x32xbf16>, tensor<32x128xbf16>
    %c = tape.broadcast_in_dim %b to [64, 128] dims [1] : tensor<128xbf16>
    %v = tape.add %p, %c : tensor<64x128xbf16>, tensor<64x128xbf16>
    %y = tape.gelu %v {approximate = "tanh"} : tensor<64x128xbf16>
    %dv = tape.gelu_grad %v, %dy {approximate = "tanh", tape.phase = "backward"} : tensor<64x128xbf16>, tensor<64x128xbf16>
    return %y, %dv : tensor<64x128xbf16>, tensor<64x128xbf16>
  }
}

// -----

// Kept as they are: what the loss reads, what needs a function, what another large value takes part in, what a call reads from memory, what is
// wider than its product would be.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tape.multiply %{{.*}}, %arg5 {{.*}}backward
// CHECK-NOT: tape.exp {{.*}}backward
// CHECK-NOT: tape.{{add|convert}} {{.*}}backward
module attributes {tape.target = "cuda"} {
  func.func @others(%x: tensor<64x32xf32>, %w: tensor<32x128xf32>, %r: tensor<64x128xf32>, %u: tensor<128x32xf32>, %b: tensor<128xf32>, %k: tensor<f32>)
      -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x32xf32>, tensor<64x128xf32>, tensor<64x128xbf16>) {
    %p = tape.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x32xf32>, tensor<32x128xf32>
    %e = tape.exp %p : tensor<64x128xf32>
    %de = tape.multiply %e, %r {tape.phase = "backward"} : tensor<64x128xf32>, tensor<64x128xf32>
    %s = tape.add %p, %r : tensor<64x128xf32>, tensor<64x128xf32>
    %ds = tape.multiply %s, %r {tape.phase = "backward"} : tensor<64x128xf32>, tensor<64x128xf32>
    %c = tape.broadcast_in_dim %b to [64, 128] dims [1] : tensor<128xf32>
    %v = tape.add %p, %c : tensor<64x128xf32>, tensor<64x128xf32>
    %y = tape.dot_general %v, %u batch [] x [] contract [1] x [0] : tensor<64x128xf32>, tensor<128x32xf32>
    %dv = tape.multiply %v, %r {tape.phase = "backward"} : tensor<64x128xf32>, tensor<64x128xf32>
    %l = tape.multiply %p, %k : tensor<64x128xf32>, tensor<f32>
    %loss = tape.exp %l {tape.phase = "loss"} : tensor<64x128xf32>
    %dl = tape.multiply %l, %loss {tape.phase = "backward"} : tensor<64x128xf32>, tensor<64x128xf32>
    %h = tape.convert %p to bf16 : tensor<64x128xf32>
    %dh = tape.multiply %h, %h {tape.phase = "backward"} : tensor<64x128xbf16>, tensor<64x128xbf16>
    return %dl, %de, %ds, %y, %dv, %dh : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x32xf32>, tensor<64x128xf32>, tensor<64x128xbf16>
  }
}
