// RUN: tapeout-opt %s --tape-fuse-multi-tensor | FileCheck %s

// Sums of parts wait for the last one, but not behind a reader, nor in another phase. Others stay: no sum of parts.
// CHECK-LABEL: func.func @step
// CHECK: tape.fusion(%arg0, %arg1, %arg2) attributes {tape.phase = "backward", tensors = 3 : i64}
// CHECK: tape.fusion(%{{.*}}#0)
// CHECK: tape.fusion(%arg0)
// CHECK: tape.fusion(%arg3)
module attributes {tape.target = "cuda"} {
  func.func @step(%a: tensor<512x64xf32>, %b: tensor<512x64xf32>, %c: tensor<128x32xf32>, %d: tensor<512x50xf32>) -> (tensor<64xf32>, tensor<32xf32>, tensor<64xf32>, tensor<50xf32>) {
    %0:2 = tape.fusion(%a, %b) attributes {tape.phase = "backward"} : (tensor<512x64xf32>, tensor<512x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%x: tensor<512x64xf32>, %y: tensor<512x64xf32>):
      %r = tape.reduce "sum" %x over [0] : tensor<512x64xf32>
      %s = tape.reduce "sum" %y over [0] : tensor<512x64xf32>
      tape.yield %r, %s : tensor<64xf32>, tensor<64xf32>
    }
    %1 = tape.fusion(%c) attributes {tape.phase = "backward"} : (tensor<128x32xf32>) -> tensor<32xf32> {
    ^bb0(%x: tensor<128x32xf32>):
      %r = tape.reduce "sum" %x over [0] : tensor<128x32xf32>
      tape.yield %r : tensor<32xf32>
    }
    %2 = tape.fusion(%0#0) attributes {tape.phase = "backward"} : (tensor<64xf32>) -> tensor<64xf32> {
    ^bb0(%x: tensor<64xf32>):
      %r = tape.exp %x : tensor<64xf32>
      tape.yield %r : tensor<64xf32>
    }
    %3 = tape.fusion(%a) attributes {tape.phase = "backward"} : (tensor<512x64xf32>) -> tensor<64xf32> {
    ^bb0(%x: tensor<512x64xf32>):
      %r = tape.reduce "sum" %x over [0] : tensor<512x64xf32>
      tape.yield %r : tensor<64xf32>
    }
    %4 = tape.fusion(%d) attributes {tape.phase = "backward"} : (tensor<512x50xf32>) -> tensor<50xf32> {
    ^bb0(%x: tensor<512x50xf32>):
      %r = tape.reduce "sum" %x over [0] : tensor<512x50xf32>
      tape.yield %r : tensor<50xf32>
    }
    return %2, %1, %3, %4 : tensor<64xf32>, tensor<32xf32>, tensor<64xf32>, tensor<50xf32>
  }
}
