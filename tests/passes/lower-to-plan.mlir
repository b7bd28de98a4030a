// RUN: tapeout-opt %s --split-input-file --tape-form-fusion-groups=merge=false --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// An elementwise update is written in place; equal kernels are one; a metric has an output slot.
// CHECK:       %[[W:.*]] = plan.slot "parameter" "w" tensor<8xf32>
// CHECK:       %[[LOSS:.*]] = plan.slot "output" "step/loss" tensor<8xf32>
// CHECK:       plan.program @step inputs []() outputs ["loss"](%[[LOSS]])
// CHECK:       plan.launch @[[EXP:k0_exp]](%[[W]]) -> (%[[T:.*]])
// CHECK:       plan.launch @[[EXP]](%[[T]]) -> (%[[LOSS]])
// CHECK:       plan.launch @k1_negate(%[[W]]) -> (%[[W]])
// CHECK-NOT:   plan.copy
// CHECK:       plan.kernel @k0_exp
func.func @step(%w: tensor<8xf32> {tape.role = "parameter", tape.name = "w"})
    -> (tensor<8xf32> {tape.name = "loss"}, tensor<8xf32> {tape.updates = 0 : i64}) {
  %0 = tape.exp %w : tensor<8xf32>
  %1 = tape.exp %0 : tensor<8xf32>
  %2 = tape.negate %w : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The old value is still read after the update, so the new one waits in the arena and is copied at the end.
// CHECK:       plan.launch @k0_negate(%[[W:.*]]) -> (%[[NEW:.*]])
// CHECK:       plan.launch @k1_exp(%[[W]]) -> (%{{.*}})
// CHECK:       plan.copy(%[[NEW]]) -> (%[[W]]) {bytes = 64 : i64}
func.func @step(%w: tensor<8xf32> {tape.role = "parameter", tape.name = "w"})
    -> (tensor<8xf32> {tape.name = "loss"}, tensor<8xf32> {tape.updates = 0 : i64}) {
  %0 = tape.negate %w : tensor<8xf32>
  %1 = tape.exp %w : tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Not elementwise: a transpose in place would read what it has written.
// CHECK:       plan.launch @k0_transpose(%[[W:.*]]) -> (%[[NEW:.*]])
// CHECK:       plan.copy(%[[NEW]]) -> (%[[W]])
func.func @step(%w: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<8x8xf32> {tape.updates = 0 : i64}) {
  %0 = tape.transpose %w by [1, 0] : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A product of heads: batch strides of [batch, tokens, heads, size] operands.
// CHECK: plan.matmul({{.*}}) -> ({{.*}}) sizes [5, 5, 4] strides [12, 1, 1, 12, 5, 1] batch [2, 60, 60, 75, 3, 4, 4, 25]
func.func @step(%q: tensor<2x5x3x4xf32> {tape.role = "input", tape.name = "q"}) -> (tensor<2x3x5x5xf32> {tape.name = "loss"}) {
  %0 = tape.dot_general %q, %q batch [0, 2] x [0, 2] contract [3] x [3] : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
  return %0 : tensor<2x3x5x5xf32>
}

// -----

// Bytes moved: a lookup reads the rows that it copies, not the whole table; a constant and a repeated number are read once.
// CHECK: plan.launch @k0_embedding({{.*}}) -> ({{.*}}) {bytes = 144 : i64
// CHECK: plan.launch @k1_broadcast_in_dim_multiply({{.*}}) -> ({{.*}}) {bytes = 132 : i64
func.func @step(%table: tensor<1000x4xf32> {tape.role = "parameter", tape.name = "table"}, %ids: tensor<4xi32> {tape.role = "input", tape.name = "ids"},
                %scale: tensor<f32> {tape.role = "parameter", tape.name = "scale"}) -> (tensor<4x4xf32> {tape.name = "loss"}) {
  %0 = tape.embedding %table[%ids] : tensor<1000x4xf32>, tensor<4xi32>
  %1 = tape.broadcast_in_dim %scale to [4, 4] dims [] : tensor<f32>
  %2 = tape.multiply %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// Convolutions and poolings are one instruction: batch, channels, filters, planes, window, positions, strides, padding, parts.
// CHECK: plan.window "convolution"(%{{.*}}, %{{.*}}) -> (%[[Y:.*]]) sizes [2, 3, 8, 9, 7, 3, 3, 5, 4, 2, 2, 1, 1, 1]
// CHECK: plan.window "max_pool"(%[[Y]]) -> (%{{.*}}, %{{.*}}) sizes [2, 8, 1, 5, 4, 2, 2, 2, 2, 2, 2, 0, 0, 1]
func.func @step(%x: tensor<2x3x9x7xf32> {tape.role = "input", tape.name = "x"}, %w: tensor<8x3x3x3xf32> {tape.role = "parameter", tape.name = "w"})
    -> (tensor<2x8x2x2xf32> {tape.name = "loss"}) {
  %0 = tape.convolution %x, %w strides [2, 2] padding [1, 1, 1, 1] : tensor<2x3x9x7xf32>, tensor<8x3x3x3xf32>
  %1, %2 = tape.max_pool %0 window [2, 2] strides [2, 2] padding [0, 0, 0, 0] : tensor<2x8x5x4xf32>
  return %1 : tensor<2x8x2x2xf32>
}
