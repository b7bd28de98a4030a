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

// -----

// Rows from the middle of an argument are elements one behind the other: repeated along the rows of a kernel, they are read in it.
// CHECK-LABEL: @rows
// CHECK-NEXT:  tape.fusion(%arg0, %arg1)
// CHECK-NOT:   tape.fusion
// CHECK:       tape.slice
// CHECK-NOT:   tape.fusion
// CHECK:       tape.reduce
// CHECK-NOT:   tape.fusion
// CHECK:       return
func.func @rows(%x: tensor<2x70xf32>, %scale: tensor<6xf32>) -> tensor<2xf32> {
  %0 = tape.slice %scale from [2] to [4] : tensor<6xf32>
  %1 = tape.broadcast_in_dim %0 to [2, 70] dims [0] : tensor<2xf32>
  %2 = tape.multiply %x, %1 : tensor<2x70xf32>, tensor<2x70xf32>
  %3 = tape.reduce "sum" %2 over [1] : tensor<2x70xf32>
  return %3 : tensor<2xf32>
}
