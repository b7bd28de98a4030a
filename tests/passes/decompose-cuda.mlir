// RUN: tapeout-opt %s --split-input-file --tape-decompose | FileCheck %s

// Long columns become parts first, so that many threads share them; the result is that of the second reduction. Short
// columns stay.
// CHECK-LABEL: @columns
// CHECK:       %[[CUT:.*]] = tape.reshape %arg0 to [512, 128, 768]
// CHECK-NEXT:  %[[PARTS:.*]] = tape.reduce "sum" %[[CUT]] over [1]
// CHECK-NEXT:  %[[SUM:.*]] = tape.reduce "sum" %[[PARTS]] over [0]
// CHECK-NEXT:  %[[SHORT:.*]] = tape.reduce "sum" %arg1 over [1]
// CHECK-NEXT:  return %[[SUM]], %[[SHORT]]
module attributes {tape.target = "cuda"} {
  func.func @columns(%x: tensor<16x4096x768xf32>, %y: tensor<4x100x8xf32>) -> (tensor<768xf32>, tensor<4x8xf32>) {
    %0 = tape.reduce "sum" %x over [0, 1] : tensor<16x4096x768xf32>
    %1 = tape.reduce "sum" %y over [1] : tensor<4x100x8xf32>
    return %0, %1 : tensor<768xf32>, tensor<4x8xf32>
  }
}

// -----

// Few heads are a loop of calls, one for each: 3 heads stay where they are. 16 x 16 batches would be too many calls, so
// the heads are put in front, where one dimension holds all batches.
// CHECK-LABEL: @heads
// CHECK:       tape.dot_general %arg0, %arg0 batch [0, 2] x [0, 2]
// CHECK:       tape.transpose %arg1 by [0, 2, 1, 3]
// CHECK:       tape.transpose %arg1 by [0, 2, 1, 3]
// CHECK:       tape.dot_general %{{.*}}, %{{.*}} batch [0, 1] x [0, 1] contract [3] x [3]
module attributes {tape.target = "cuda"} {
  func.func @heads(%few: tensor<16x5x3x4xf32>, %many: tensor<16x5x16x4xf32>) -> (tensor<16x3x5x5xf32>, tensor<16x16x5x5xf32>) {
    %0 = tape.dot_general %few, %few batch [0, 2] x [0, 2] contract [3] x [3] : tensor<16x5x3x4xf32>, tensor<16x5x3x4xf32>
    %1 = tape.dot_general %many, %many batch [0, 2] x [0, 2] contract [3] x [3] : tensor<16x5x16x4xf32>, tensor<16x5x16x4xf32>
    return %0, %1 : tensor<16x3x5x5xf32>, tensor<16x16x5x5xf32>
  }
}

// -----

// The gradient of an embedding is a sum of sorted rows, whose work does not depend on how often an id occurs.
// CHECK-LABEL: @embedding
// CHECK:       %[[ORDER:.*]], %[[BEGINS:.*]] = tape.sort_ids %arg0 rows 50
// CHECK-NEXT:  %[[PIECES:.*]] = tape.sum_sorted_pieces %arg0, %[[ORDER]], %arg1
// CHECK-NEXT:  %[[SUM:.*]] = tape.sum_sorted_rows %[[ORDER]], %[[BEGINS]], %[[PIECES]], %arg1
// CHECK-NEXT:  return %[[SUM]]
module attributes {tape.target = "cuda"} {
  func.func @embedding(%ids: tensor<4x100xi32>, %g: tensor<4x100x8xbf16>) -> tensor<50x8xbf16> {
    %0 = tape.embedding_grad %ids, %g rows 50 : tensor<4x100xi32>, tensor<4x100x8xbf16>
    return %0 : tensor<50x8xbf16>
  }
}
