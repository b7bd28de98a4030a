// RUN: tapeout-opt %s --split-input-file --tape-read-rounded | FileCheck %s

// The sum of a bias's gradient reads what the product reads, and the conversion comes first.
// CHECK-LABEL: func.func @logits
// CHECK: %[[G:.*]] = tape.multiply
// CHECK-NEXT: %[[R:.*]] = tape.convert %[[G]] to bf16
// CHECK: %[[W:.*]] = tape.convert %[[R]] to f32
// CHECK: %[[C:.*]] = tape.reshape %[[W]] to [4, 32, 5000]
// CHECK: tape.reduce "sum" %[[C]] over [1]
// CHECK: tape.dot_general %[[R]]
module attributes {tape.target = "cuda"} {
  func.func @logits(%x: tensor<128x5000xf32>, %w: tensor<5000x16xbf16>) -> (tensor<4x5000xf32>, tensor<128x16xbf16>) {
    %g = tape.multiply %x, %x : tensor<128x5000xf32>, tensor<128x5000xf32>
    %c = tape.reshape %g to [4, 32, 5000] : tensor<128x5000xf32>
    %s = tape.reduce "sum" %c over [1] {tape.phase = "backward"} : tensor<4x32x5000xf32>
    %r = tape.convert %g to bf16 : tensor<128x5000xf32>
    %d = tape.dot_general %r, %w batch [] x [] contract [1] x [0] : tensor<128x5000xbf16>, tensor<5000x16xbf16>
    return %s, %d : tensor<4x5000xf32>, tensor<128x16xbf16>
  }
}

// -----

// Bands are summed where the rows are computed, sums over rows too; and what no product reads in 16 bits stays, as do maxima and
// what the forward phase sums.
// CHECK-LABEL: func.func @others
// CHECK-NOT: to f32
module attributes {tape.target = "cuda"} {
  func.func @others(%x: tensor<1024x64xf32>, %w: tensor<64x16xbf16>)
      -> (tensor<128x64xf32>, tensor<1024xf32>, tensor<1024x16xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<1024x64xbf16>) {
    %g = tape.multiply %x, %x : tensor<1024x64xf32>, tensor<1024x64xf32>
    %c = tape.reshape %g to [128, 8, 64] : tensor<1024x64xf32>
    %s = tape.reduce "sum" %c over [1] {tape.phase = "backward"} : tensor<128x8x64xf32>
    %t = tape.reduce "sum" %g over [1] {tape.phase = "backward"} : tensor<1024x64xf32>
    %m = tape.reduce "max" %g over [0] {tape.phase = "backward"} : tensor<1024x64xf32>
    %f = tape.reduce "sum" %g over [0] : tensor<1024x64xf32>
    %r = tape.convert %g to bf16 : tensor<1024x64xf32>
    %d = tape.dot_general %r, %w batch [] x [] contract [1] x [0] : tensor<1024x64xbf16>, tensor<64x16xbf16>
    %h = tape.exp %x : tensor<1024x64xf32>
    %u = tape.reduce "sum" %h over [0] {tape.phase = "backward"} : tensor<1024x64xf32>
    %v = tape.convert %h to bf16 : tensor<1024x64xf32>
    return %s, %t, %d, %u, %m, %f, %v : tensor<128x64xf32>, tensor<1024xf32>, tensor<1024x16xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<1024x64xbf16>
  }
}
