// RUN: tapeout-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @tied
// CHECK-NOT: tape.add
// CHECK: %[[SUM:.*]] = tape.sum_sorted_rows %arg0, %arg1, %arg2, %arg3 to %{{.*}} {tape.phase = "backward"}
// CHECK-NEXT: return %[[SUM]]
func.func @tied(%order: tensor<100xi32>, %begins: tensor<8xi32>, %pieces: tensor<2x5xf32>, %g: tensor<100x5xf32>, %x: tensor<7x5xf32>) -> tensor<7x5xf32> {
  %s = tape.sum_sorted_rows %order, %begins, %pieces, %g : tensor<100xi32>, tensor<8xi32>, tensor<2x5xf32>, tensor<100x5xf32>
  %y = tape.negate %x : tensor<7x5xf32>
  %r = tape.add %y, %s {tape.phase = "backward"} : tensor<7x5xf32>, tensor<7x5xf32>
  return %r : tensor<7x5xf32>
}

// 16 bits would be rounded twice, and a sum that others read stays.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: tape.add
func.func @others(%order: tensor<100xi32>, %begins: tensor<8xi32>, %pieces: tensor<2x5xf32>, %g: tensor<100x5xbf16>, %h: tensor<100x5xf32>,
                  %x: tensor<7x5xbf16>, %y: tensor<7x5xf32>) -> (tensor<7x5xbf16>, tensor<7x5xf32>, tensor<7x5xf32>) {
  %s = tape.sum_sorted_rows %order, %begins, %pieces, %g : tensor<100xi32>, tensor<8xi32>, tensor<2x5xf32>, tensor<100x5xbf16>
  %a = tape.add %s, %x : tensor<7x5xbf16>, tensor<7x5xbf16>
  %t = tape.sum_sorted_rows %order, %begins, %pieces, %h : tensor<100xi32>, tensor<8xi32>, tensor<2x5xf32>, tensor<100x5xf32>
  %b = tape.add %t, %y : tensor<7x5xf32>, tensor<7x5xf32>
  return %a, %b, %t : tensor<7x5xbf16>, tensor<7x5xf32>, tensor<7x5xf32>
}
