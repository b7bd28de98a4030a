// RUN: tapeout-opt %s --split-input-file --tape-chunk-loss=chunks=2 | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-chunk-loss | FileCheck %s --check-prefix=SMALL

// Each chunk reads its rows and labels as slices, and is done before the next begins. The weight's gradient is added up, the
// rows' gradient and the losses are joined; what reads them comes behind.
// CHECK-LABEL: @tokens
// CHECK:      %[[N:.*]] = tape.maximum %arg3
// CHECK:      %[[G:.*]] = tape.divide {{.*}}, %[[N]]
// CHECK:      %[[X0:.*]] = tape.slice %arg0 from [0, 0, 0] to [2, 2, 8]
// CHECK-NEXT: %[[Z0:.*]] = tape.dot_general %[[X0]], %arg1 batch [] x [] contract [2] x [1]
// CHECK-NEXT: %[[L0:.*]] = tape.slice %arg2 from [0, 0] to [2, 2]
// CHECK-NEXT: %[[C0:.*]], %[[S0:.*]] = tape.cross_entropy %[[Z0]], %[[L0]] ignore -100 {tape.phase = "loss"}
// CHECK-NEXT: %[[G0:.*]] = tape.broadcast_in_dim %[[G]] to [2, 2] dims []
// CHECK-NEXT: %[[D0:.*]] = tape.cross_entropy_grad %[[Z0]], %[[L0]], %[[S0]], %[[G0]] ignore -100 {tape.phase = "backward"}
// CHECK-NEXT: %[[DX0:.*]] = tape.dot_general %[[D0]], %arg1 batch
// CHECK-NEXT: %[[DW0:.*]] = tape.dot_general %[[D0]], %[[X0]] batch
// CHECK-NEXT: %[[X1:.*]] = tape.slice %arg0 from [2, 0, 0] to [4, 2, 8]
// CHECK-NEXT: %[[Z1:.*]] = tape.dot_general %[[X1]], %arg1 batch [] x [] contract [2] x [1]
// CHECK-NEXT: %[[L1:.*]] = tape.slice %arg2 from [2, 0] to [4, 2]
// CHECK-NEXT: %[[C1:.*]], %[[S1:.*]] = tape.cross_entropy %[[Z1]], %[[L1]]
// CHECK-NEXT: %[[G1:.*]] = tape.broadcast_in_dim %[[G]]
// CHECK-NEXT: %[[D1:.*]] = tape.cross_entropy_grad %[[Z1]], %[[L1]], %[[S1]], %[[G1]]
// CHECK-NEXT: %[[DX1:.*]] = tape.dot_general %[[D1]], %arg1 batch
// CHECK-NEXT: %[[DW:.*]] = tape.dot_general %[[D1]], %[[X1]] plus %[[DW0]] batch [] x [] contract [0, 1] x [0, 1] {tape.phase = "backward"}
// CHECK-NEXT: %[[C:.*]] = tape.concatenate %[[C0]], %[[C1]] dim 0 {tape.phase = "loss"}
// CHECK-NEXT: %[[DX:.*]] = tape.concatenate %[[DX0]], %[[DX1]] dim 0 {tape.phase = "backward"}
// CHECK-NEXT: %[[SUM:.*]] = tape.reduce "sum" %[[C]] over [0, 1]
// CHECK-NEXT: %[[LOSS:.*]] = tape.divide %[[SUM]], %[[N]]
// CHECK-NEXT: return %[[LOSS]], %[[DX]], %[[DW]]

// Few logits stay together unless the user says otherwise.
// SMALL-NOT: tape.slice
// SMALL-NOT: tape.concatenate

func.func @tokens(%x: tensor<4x2x8xf32>, %w: tensor<6x8xf32>, %labels: tensor<4x2xi32>, %count: tensor<f32>)
    -> (tensor<f32> {tape.name = "loss"}, tensor<4x2x8xf32>, tensor<6x8xf32>) {
  %logits = tape.dot_general %x, %w batch [] x [] contract [2] x [1] : tensor<4x2x8xf32>, tensor<6x8xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 {tape.phase = "loss"} : tensor<4x2x6xf32>, tensor<4x2xi32>
  %sum = tape.reduce "sum" %losses over [0, 1] {tape.phase = "loss"} : tensor<4x2xf32>
  %one = tape.constant 1.0 to f32
  %n = tape.maximum %count, %one : tensor<f32>, tensor<f32>
  %loss = tape.divide %sum, %n {tape.phase = "loss"} : tensor<f32>, tensor<f32>
  %g = tape.divide %one, %n {tape.phase = "backward"} : tensor<f32>, tensor<f32>
  %gs = tape.broadcast_in_dim %g to [4, 2] dims [] {tape.phase = "backward"} : tensor<f32>
  %d = tape.cross_entropy_grad %logits, %labels, %lse, %gs ignore -100 {tape.phase = "backward"} : (tensor<4x2x6xf32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2x6xf32>
  %dx = tape.dot_general %d, %w batch [] x [] contract [2] x [0] {tape.phase = "backward"} : tensor<4x2x6xf32>, tensor<6x8xf32>
  %dw = tape.dot_general %d, %x batch [] x [] contract [0, 1] x [0, 1] {tape.phase = "backward"} : tensor<4x2x6xf32>, tensor<4x2x8xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<4x2x8xf32>, tensor<6x8xf32>
}

// -----

// 16 bits: the casts are of a chunk each. Sums of rows, as a bias's gradient, are added. The last chunk may be smaller.
// CHECK-LABEL: @bias
// CHECK:      tape.slice %arg0 from [0, 0] to [3, 8]
// CHECK:      tape.broadcast_in_dim %arg2 to [3, 6] dims [1]
// CHECK:      tape.slice %arg0 from [3, 0] to [5, 8]
// CHECK:      tape.broadcast_in_dim %arg2 to [2, 6] dims [1]
// CHECK:      %[[R:.*]] = tape.dot_general {{.*}} plus %{{.*}} batch [] x [] contract [0] x [0] to f32
// CHECK-NEXT: %[[B1:.*]] = tape.reduce "sum" {{.*}} over [0]
// CHECK-NEXT: tape.concatenate
// CHECK-NEXT: %[[B:.*]] = tape.add %{{.*}}, %[[B1]] {tape.phase = "backward"} : tensor<6xf32>
// CHECK:      return %{{.*}}, %[[R]], %[[B]]
func.func @bias(%x: tensor<5x8xbf16>, %w: tensor<6x8xbf16>, %bias: tensor<6xbf16>, %labels: tensor<5xi32>, %g: tensor<5xf32>)
    -> (tensor<f32> {tape.name = "loss"}, tensor<6x8xf32>, tensor<6xf32>) {
  %product = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<5x8xbf16>, tensor<6x8xbf16>
  %biases = tape.broadcast_in_dim %bias to [5, 6] dims [1] : tensor<6xbf16>
  %logits = tape.add %product, %biases : tensor<5x6xbf16>, tensor<5x6xbf16>
  %wide = tape.convert %logits to f32 {tape.phase = "loss"} : tensor<5x6xbf16>
  %losses, %lse = tape.cross_entropy %wide, %labels ignore -100 {tape.phase = "loss"} : tensor<5x6xf32>, tensor<5xi32>
  %loss = tape.reduce "sum" %losses over [0] {tape.phase = "loss"} : tensor<5xf32>
  %d = tape.cross_entropy_grad %wide, %labels, %lse, %g ignore -100 {tape.phase = "backward"} : (tensor<5x6xf32>, tensor<5xi32>, tensor<5xf32>, tensor<5xf32>) -> tensor<5x6xf32>
  %narrow = tape.convert %d to bf16 {tape.phase = "backward"} : tensor<5x6xf32>
  %dw = tape.dot_general %narrow, %x batch [] x [] contract [0] x [0] to f32 {tape.phase = "backward"} : tensor<5x6xbf16>, tensor<5x8xbf16>
  %db = tape.reduce "sum" %d over [0] {tape.phase = "backward"} : tensor<5x6xf32>
  return %loss, %dw, %db : tensor<f32>, tensor<6x8xf32>, tensor<6xf32>
}

// -----

// Gradients of weights are not added up in 16 bits.
// CHECK-LABEL: @low_precision
// CHECK-NOT: tape.slice
func.func @low_precision(%x: tensor<4x8xbf16>, %w: tensor<6x8xbf16>, %labels: tensor<4xi32>, %g: tensor<4xbf16>)
    -> (tensor<bf16> {tape.name = "loss"}, tensor<6x8xbf16>) {
  %logits = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xbf16>, tensor<6x8xbf16>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 {tape.phase = "loss"} : tensor<4x6xbf16>, tensor<4xi32>
  %loss = tape.reduce "sum" %losses over [0] {tape.phase = "loss"} : tensor<4xbf16>
  %d = tape.cross_entropy_grad %logits, %labels, %lse, %g ignore -100 {tape.phase = "backward"} : (tensor<4x6xbf16>, tensor<4xi32>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<4x6xbf16>
  %dw = tape.dot_general %d, %x batch [] x [] contract [0] x [0] {tape.phase = "backward"} : tensor<4x6xbf16>, tensor<4x8xbf16>
  return %loss, %dw : tensor<bf16>, tensor<6x8xbf16>
}

// -----

// Logits that somebody else wants are wanted whole.
// CHECK-LABEL: @wanted_logits
// CHECK-NOT: tape.slice
func.func @wanted_logits(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %labels: tensor<4xi32>) -> (tensor<f32> {tape.name = "loss"}, tensor<4x6xf32>) {
  %logits = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<6x8xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 : tensor<4x6xf32>, tensor<4xi32>
  %loss = tape.reduce "sum" %losses over [0] : tensor<4xf32>
  return %loss, %logits : tensor<f32>, tensor<4x6xf32>
}

// -----

// A gradient that is scaled by the loss waits for the losses of all rows.
// CHECK-LABEL: @scaled_by_loss
// CHECK-NOT: tape.slice
func.func @scaled_by_loss(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %labels: tensor<4xi32>) -> (tensor<f32> {tape.name = "loss"}, tensor<4x8xf32>) {
  %logits = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<6x8xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 : tensor<4x6xf32>, tensor<4xi32>
  %loss = tape.reduce "sum" %losses over [0] : tensor<4xf32>
  %g = tape.broadcast_in_dim %loss to [4] dims [] : tensor<f32>
  %d = tape.cross_entropy_grad %logits, %labels, %lse, %g ignore -100 : (tensor<4x6xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  %dx = tape.dot_general %d, %w batch [] x [] contract [1] x [0] : tensor<4x6xf32>, tensor<6x8xf32>
  return %loss, %dx : tensor<f32>, tensor<4x8xf32>
}

// -----

// Masks of dropout are drawn by the index among all rows.
// CHECK-LABEL: @dropout
// CHECK-NOT: tape.slice
func.func @dropout(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %labels: tensor<4xi32>, %seed: tensor<i64>, %counter: tensor<i64>) -> (tensor<f32> {tape.name = "loss"}) {
  %product = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<6x8xf32>
  %logits = tape.dropout %product rate 5.0e-01 random %seed, %counter {stream = 0 : i64} : tensor<4x6xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 : tensor<4x6xf32>, tensor<4xi32>
  %loss = tape.reduce "sum" %losses over [0] : tensor<4xf32>
  return %loss : tensor<f32>
}

// -----

// Of several products there are no logits that all of the rest follows from.
// CHECK-LABEL: @two_products
// CHECK-NOT: tape.slice
func.func @two_products(%x: tensor<4x8xf32>, %v: tensor<6x8xf32>, %w: tensor<6x8xf32>, %labels: tensor<4xi32>) -> (tensor<f32> {tape.name = "loss"}) {
  %a = tape.dot_general %x, %v batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<6x8xf32>
  %b = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<6x8xf32>
  %logits = tape.add %a, %b : tensor<4x6xf32>, tensor<4x6xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 : tensor<4x6xf32>, tensor<4xi32>
  %loss = tape.reduce "sum" %losses over [0] : tensor<4xf32>
  return %loss : tensor<f32>
}

// -----

// Evaluation has logits, too. Of one sample, its positions are the rows; chunks begin at 16 bytes, here at every other row.
// CHECK-LABEL: @one_sample
// CHECK: tape.slice %arg0 from [0, 0, 0] to [1, 4, 2]
// CHECK: tape.slice %arg0 from [0, 4, 0] to [1, 6, 2]
func.func @one_sample(%x: tensor<1x6x2xf32>, %w: tensor<6x2xf32>, %labels: tensor<1x6xi32>) -> (tensor<f32> {tape.name = "loss_sum"}) {
  %logits = tape.dot_general %x, %w batch [] x [] contract [2] x [1] : tensor<1x6x2xf32>, tensor<6x2xf32>
  %losses, %lse = tape.cross_entropy %logits, %labels ignore -100 : tensor<1x6x6xf32>, tensor<1x6xi32>
  %loss = tape.reduce "sum" %losses over [0, 1] : tensor<1x6xf32>
  return %loss : tensor<f32>
}
