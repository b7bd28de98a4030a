// RUN: tapeout-opt %s --split-input-file --tape-decompose --canonicalize --tape-form-fusion-groups --tape-verify-fusion-groups | FileCheck %s

// Maximum, exponentials and their sum in one kernel.
// CHECK-LABEL: @softmax(
// CHECK: tape.fusion(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK: tape.reduce "max"
// CHECK: tape.reduce "sum"
// CHECK: tape.divide
// CHECK-NOT: tape.fusion
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tape.softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @softmax_grad(
// CHECK: tape.fusion(%arg0, %arg1)
// CHECK: tape.reduce "sum"
// CHECK: tape.multiply
// CHECK-NOT: tape.fusion
func.func @softmax_grad(%y: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %dx = tape.softmax_grad %y, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %dx : tensor<4x8xf32>
}

// -----

// The rows' mean and 1 / deviation are further results of the kernel.
// CHECK-LABEL: @layer_norm(
// CHECK: %[[N:.*]]:3 = tape.fusion(%arg0, %arg1, %arg2)
// CHECK: tape.yield %[[MEAN:.*]], %[[RSTD:.*]], %[[Y:.*]] : tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>
// CHECK-NOT: tape.fusion
// CHECK: return %[[N]]#2, %[[N]]#0, %[[N]]#1
func.func @layer_norm(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %mean, %rstd = tape.layer_norm %x, %gamma, %beta eps 1.0e-5
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y, %mean, %rstd : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// One kernel by rows; columns are summed by kernels of their own, which compute their operands again.
// CHECK-LABEL: @layer_norm_grad(
// CHECK: %[[DX:.*]] = tape.fusion(%arg0, %arg2, %arg3, %arg4, %arg1)
// CHECK-COUNT-2: tape.reduce "sum" %{{.*}} over [1]
// CHECK: %[[DG:.*]] = tape.fusion(%arg0, %arg2, %arg3, %arg4)
// CHECK: tape.multiply
// CHECK: tape.reduce "sum" %{{.*}} over [0]
// CHECK: %[[DB:.*]] = tape.fusion(%arg4)
// CHECK-NOT: tape.fusion
// CHECK: return %[[DX]], %[[DG]], %[[DB]]
func.func @layer_norm_grad(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %mean: tensor<4xf32>, %rstd: tensor<4xf32>,
    %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %dx = tape.layer_norm_grad %x, %gamma, %mean, %rstd, %dy
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dg, %db = tape.layer_norm_param_grad %x, %mean, %rstd, %dy
    : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %dx, %dg, %db : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// CHECK-LABEL: @bias_gelu(
// CHECK: tape.fusion(%arg0, %arg1)
// CHECK: tape.broadcast_in_dim
// CHECK-NEXT: tape.add
// CHECK-NEXT: tape.gelu
// CHECK-NEXT: tape.yield
// CHECK-NOT: tape.fusion
func.func @bias_gelu(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %v = tape.broadcast_in_dim %b to [4, 8] dims [1] : tensor<8xf32>
  %s = tape.add %x, %v : tensor<4x8xf32>, tensor<4x8xf32>
  %y = tape.gelu %s {approximate = "tanh"} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A loss in the forward phase is one kernel, its gradient, of another phase, one more; each counts the classes itself.
// CHECK-LABEL: @loss(
// CHECK: %[[LOSS:.*]]:2 = tape.fusion(%arg0, %arg1)
// CHECK: tape.reduce "max"
// CHECK-COUNT-2: tape.reduce "sum"
// CHECK: %[[GRADIENT:.*]] = tape.fusion(%arg0, %[[LOSS]]#0, %arg1, %arg2) attributes {tape.phase = "backward"}
// CHECK-NOT: tape.fusion
// CHECK: return %[[LOSS]]#1, %[[GRADIENT]]
func.func @loss(%x: tensor<4x8xf32>, %labels: tensor<4xi32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %y, %lse = tape.cross_entropy %x, %labels ignore -100 : tensor<4x8xf32>, tensor<4xi32>
  %dx = tape.cross_entropy_grad %x, %labels, %lse, %dy ignore -100 {tape.phase = "backward"}
    : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %y, %dx : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// Products and kernels both read through a transpose; a reshape stays an alias.
// CHECK-LABEL: @memory(
// CHECK: %[[E:.*]] = tape.fusion(%arg0)
// CHECK: %[[T:.*]] = tape.transpose %[[E]]
// CHECK-NEXT: %[[Y:.*]] = tape.dot_general %[[T]], %arg1
// CHECK: %[[N:.*]] = tape.fusion(%[[E]]) : (tensor<3x2xf32>) -> tensor<2x3xf32> {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tape.transpose
// CHECK-NEXT: tape.negate
// CHECK: %[[R:.*]] = tape.reshape %[[Y]] to [8]
// CHECK: %[[P:.*]] = tape.dot_general %{{.*}}, %[[R]]
func.func @memory(%x: tensor<3x2xf32>, %w: tensor<4x3xf32>, %v: tensor<5x8xf32>) -> (tensor<5xf32>, tensor<2x3xf32>) {
  %e = tape.exp %x : tensor<3x2xf32>
  %t = tape.transpose %e by [1, 0] : tensor<3x2xf32>
  %y = tape.dot_general %t, %w batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  %n = tape.negate %t : tensor<2x3xf32>
  %r = tape.reshape %y to [8] : tensor<2x4xf32>
  %p = tape.dot_general %v, %r batch [] x [] contract [1] x [0] : tensor<5x8xf32>, tensor<8xf32>
  return %p, %n : tensor<5xf32>, tensor<2x3xf32>
}

// -----

// A reduction whose rows a view would cut into pieces adds in another order: it reads what a kernel before it computes.
// CHECK-LABEL: @cut(
// CHECK: %[[P:.*]] = tape.fusion(%arg0, %arg1)
// CHECK: tape.multiply
// CHECK: tape.fusion(%[[P]])
// CHECK: tape.reduce "sum"
func.func @cut(%x: tensor<2x6xf32>, %b: tensor<6xf32>) -> tensor<f32> {
  %v = tape.broadcast_in_dim %b to [2, 6] dims [1] : tensor<6xf32>
  %p = tape.multiply %x, %v : tensor<2x6xf32>, tensor<2x6xf32>
  %s = tape.reduce "sum" %p over [0, 1] : tensor<2x6xf32>
  return %s : tensor<f32>
}

// -----

// The loss and the gradient of its logits are one kernel, which reads the logits from one place; the mean is another.
// CHECK-LABEL: @loss_and_gradient(
// CHECK-NEXT: %[[L:.*]]:2 = tape.fusion(%arg0, %arg1, %arg2) attributes {tape.phase = "loss"} : (tensor<4x8xf32>, tensor<4xi32>, tensor<f32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
// CHECK: tape.reduce "max"
// CHECK-COUNT-2: tape.reduce "sum"
// CHECK: tape.yield
// CHECK-NEXT: }
// CHECK-NEXT: tape.fusion(%arg1, %[[L]]#0) attributes {tape.phase = "loss"} : (tensor<4xi32>, tensor<4xf32>) -> tensor<f32> {
func.func @loss_and_gradient(%x: tensor<4x8xf32>, %labels: tensor<4xi32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<4x8xf32>) {
  %losses, %lse = tape.cross_entropy %x, %labels ignore -100 {tape.phase = "loss"} : tensor<4x8xf32>, tensor<4xi32>
  %sum = tape.reduce "sum" %losses over [0] {tape.phase = "loss"} : tensor<4xf32>
  %g = tape.broadcast_in_dim %scale to [4] dims [] {tape.phase = "backward"} : tensor<f32>
  %dx = tape.cross_entropy_grad %x, %labels, %lse, %g ignore -100 {tape.phase = "backward"} : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return %sum, %dx : tensor<f32>, tensor<4x8xf32>
}

// -----

// The parts of a split are views, too: each is read through the transpose of the broadcast.
// CHECK-LABEL: @views(
// CHECK: tape.fusion(%arg0) : (tensor<4xf32>) -> tensor<2x3xf32> {
// CHECK: tape.broadcast_in_dim
// CHECK-NEXT: tape.transpose
// CHECK-NEXT: tape.slice
// CHECK: tape.fusion(%arg0) : (tensor<4xf32>) -> tensor<2x3xf32> {
func.func @views(%x: tensor<4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %b = tape.broadcast_in_dim %x to [3, 4] dims [1] : tensor<4xf32>
  %t = tape.transpose %b by [1, 0] : tensor<3x4xf32>
  %0, %1 = tape.split %t dim 0 into 2 : tensor<4x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
