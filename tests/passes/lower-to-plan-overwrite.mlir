// RUN: tapeout-opt %s --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

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
