// RUN: tapeout-opt %s --split-input-file --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// Results take the memory of operands that die: element by element, and row by row where the row is read before.
// CHECK: plan.matmul({{.*}}) -> (%[[A:.*]]) sizes
// CHECK: plan.launch @k0_exp(%[[A]]) -> (%[[A]])
// CHECK: plan.launch @[[ROWS:k1_.*]](%[[A]]) -> (%[[A]])
// CHECK: plan.launch @k2_transpose_negate(%[[A]]) -> (%[[B:.*]])
// CHECK: plan.copy(%[[B]])
func.func @step(%x: tensor<4x8xf32> {tape.role = "input", tape.name = "x"}) -> (tensor<8x8xf32> {tape.name = "y"}, tensor<8x8xf32> {tape.name = "z"}) {
  %0 = tape.dot_general %x, %x batch [] x [] contract [0] x [0] : tensor<4x8xf32>, tensor<4x8xf32>
  %1 = tape.fusion(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %5 = tape.exp %a : tensor<8x8xf32>
    tape.yield %5 : tensor<8x8xf32>
  }
  %2 = tape.fusion(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %5 = tape.reduce "sum" %a over [1] : tensor<8x8xf32>
    %6 = tape.broadcast_in_dim %5 to [8, 8] dims [0] : tensor<8xf32>
    %7 = tape.divide %a, %6 : tensor<8x8xf32>, tensor<8x8xf32>
    tape.yield %7 : tensor<8x8xf32>
  }
  %3 = tape.fusion(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %5 = tape.transpose %a by [1, 0] : tensor<8x8xf32>
    %6 = tape.negate %5 : tensor<8x8xf32>
    tape.yield %6 : tensor<8x8xf32>
  }
  return %3, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A product that reads through a transpose has no operand of its own in memory that its epilogue could take over.
// CHECK: plan.matmul
// CHECK: plan.matmul
func.func @step(%x: tensor<3x3xf32> {tape.role = "input", tape.name = "x"}, %w: tensor<3x3xf32> {tape.role = "input", tape.name = "w"}) -> (tensor<3x3xf32> {tape.name = "y"}) {
  %t = tape.transpose %x by [1, 0] : tensor<3x3xf32>
  %p = tape.fusion(%t, %w) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>):
    %5 = tape.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<3x3xf32>, tensor<3x3xf32>
    %6 = tape.negate %5 : tensor<3x3xf32>
    tape.yield %6 : tensor<3x3xf32>
  }
  %q = tape.dot_general %p, %w batch [] x [] contract [0] x [0] : tensor<3x3xf32>, tensor<3x3xf32>
  return %q : tensor<3x3xf32>
}

// -----

// One tensor of a kernel for many may not overwrite what another one reads: nobody knows which comes first.
// CHECK: plan.launch @{{.*}}(%[[A:.*]], %[[C:.*]], %[[B:.*]]) -> (%[[NEW:.*]], %[[B]])
// CHECK-NEXT: plan.copy(%[[NEW]]) -> (%[[A]])
func.func @step(%a: tensor<5xf32> {tape.role = "optimizer_state", tape.name = "a"}, %b: tensor<5xf32> {tape.role = "optimizer_state", tape.name = "b"},
                %c: tensor<5xf32> {tape.role = "input", tape.name = "c"}) -> (tensor<5xf32> {tape.updates = 0 : i64}, tensor<5xf32> {tape.updates = 1 : i64}) {
  %n:2 = tape.fusion(%a, %c, %b) attributes {tensors = 2 : i64} : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  ^bb0(%x: tensor<5xf32>, %y: tensor<5xf32>, %z: tensor<5xf32>):
    %0 = tape.multiply %x, %y : tensor<5xf32>, tensor<5xf32>
    %1 = tape.multiply %z, %x : tensor<5xf32>, tensor<5xf32>
    tape.yield %0, %1 : tensor<5xf32>, tensor<5xf32>
  }
  return %n#0, %n#1 : tensor<5xf32>, tensor<5xf32>
}

// -----

// An old value that leaves is copied before the new one arrives; a swap goes through the arena.
// CHECK: plan.launch @{{.*}}negate(%[[A:.*]]) -> (%[[NEW:.*]])
// CHECK-NEXT: plan.copy(%[[A]]) -> (%[[OUT:.*]])
// CHECK-NEXT: plan.copy(%[[B:.*]]) -> (%[[ASIDE:.*]])
// CHECK-NEXT: plan.copy(%[[C:.*]]) -> (%[[ASIDE2:.*]])
// CHECK-NEXT: plan.copy(%[[NEW]]) -> (%[[A]])
// CHECK-NEXT: plan.copy(%[[ASIDE]]) -> (%[[C]])
// CHECK-NEXT: plan.copy(%[[ASIDE2]]) -> (%[[B]])
func.func @step(%a: tensor<5xf32> {tape.role = "optimizer_state", tape.name = "a"}, %b: tensor<5xf32> {tape.role = "optimizer_state", tape.name = "b"},
                %c: tensor<5xf32> {tape.role = "optimizer_state", tape.name = "c"})
    -> (tensor<5xf32> {tape.updates = 0 : i64}, tensor<5xf32> {tape.updates = 1 : i64}, tensor<5xf32> {tape.updates = 2 : i64}, tensor<5xf32> {tape.name = "old"}) {
  %n = tape.fusion(%a) : (tensor<5xf32>) -> tensor<5xf32> {
  ^bb0(%x: tensor<5xf32>):
    %0 = tape.negate %x : tensor<5xf32>
    tape.yield %0 : tensor<5xf32>
  }
  return %n, %c, %b, %a : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}

// -----

// Another element type is another slot, of as many bytes or not.
// CHECK: plan.launch @{{.*}}reduce(%{{.*}}) -> (%[[N:.*]])
// CHECK-NEXT: plan.launch @{{.*}}convert(%[[N]]) -> (%[[F:.*]])
// CHECK-NEXT: plan.matmul(%{{.*}}, %[[F]])
func.func @step(%i: tensor<5x7xi32> {tape.role = "input", tape.name = "i"}, %w: tensor<7x7xf32> {tape.role = "input", tape.name = "w"}) -> (tensor<7xf32> {tape.name = "y"}) {
  %n = tape.fusion(%i) : (tensor<5x7xi32>) -> tensor<7xi32> {
  ^bb0(%x: tensor<5x7xi32>):
    %0 = tape.reduce "sum" %x over [0] : tensor<5x7xi32>
    tape.yield %0 : tensor<7xi32>
  }
  %f = tape.fusion(%n) : (tensor<7xi32>) -> tensor<7xf32> {
  ^bb0(%x: tensor<7xi32>):
    %0 = tape.convert %x to f32 : tensor<7xi32>
    tape.yield %0 : tensor<7xf32>
  }
  %d = tape.dot_general %w, %f batch [] x [] contract [1] x [0] : tensor<7x7xf32>, tensor<7xf32>
  return %d : tensor<7xf32>
}
