// RUN: tapeout-opt %s --split-input-file --tape-decompose --canonicalize --tape-form-fusion-groups | FileCheck %s

// A rotation is one kernel: its halves are read in place.
// CHECK-LABEL: @rope
// CHECK-NEXT:  %[[R:.*]] = tape.fusion(%arg0, %arg1, %arg2)
// CHECK:       tape.slice
// CHECK:       tape.select
// CHECK-NEXT:  tape.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  tape.reshape %[[R]]
// CHECK-NEXT:  return
func.func @rope(%x: tensor<2x5x3x4xf32>, %cos: tensor<5x2xf32>, %sin: tensor<5x2xf32>) -> tensor<2x5x3x4xf32> {
  %0 = tape.rope %x, %cos, %sin : (tensor<2x5x3x4xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<2x5x3x4xf32>
  return %0 : tensor<2x5x3x4xf32>
}

// -----

// The leading part of a tensor is not the tensor: its reader does not share the loop over the whole.
// CHECK-LABEL: @part
// CHECK:       tape.fusion
// CHECK:       tape.exp
// CHECK:       tape.fusion
// CHECK:       tape.slice
// CHECK:       tape.negate
func.func @part(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<2x6xf32>) {
  %0 = tape.exp %x : tensor<4x6xf32>
  %1 = tape.slice %0 from [0, 0] to [2, 6] : tensor<4x6xf32>
  %2 = tape.negate %1 : tensor<2x6xf32>
  return %0, %2 : tensor<4x6xf32>, tensor<2x6xf32>
}
