// RUN: tapeout-opt %s --tape-insert-amp-casts --tape-verify-precision | FileCheck %s

// Views of views of a parameter, more than the pass's map of narrowed values starts with: each is narrowed once.
// CHECK-LABEL: @views
// CHECK-COUNT-48: tape.transpose {{.*}} : tensor<8x8xbf16>
// CHECK-NOT: tape.transpose
func.func @views(%x: tensor<8x8xf32>, %w0: tensor<8x8xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %w1 = tape.transpose %w0 by [1, 0] : tensor<8x8xf32>
  %w2 = tape.transpose %w1 by [1, 0] : tensor<8x8xf32>
  %w3 = tape.transpose %w2 by [1, 0] : tensor<8x8xf32>
  %w4 = tape.transpose %w3 by [1, 0] : tensor<8x8xf32>
  %w5 = tape.transpose %w4 by [1, 0] : tensor<8x8xf32>
  %w6 = tape.transpose %w5 by [1, 0] : tensor<8x8xf32>
  %w7 = tape.transpose %w6 by [1, 0] : tensor<8x8xf32>
  %w8 = tape.transpose %w7 by [1, 0] : tensor<8x8xf32>
  %w9 = tape.transpose %w8 by [1, 0] : tensor<8x8xf32>
  %w10 = tape.transpose %w9 by [1, 0] : tensor<8x8xf32>
  %w11 = tape.transpose %w10 by [1, 0] : tensor<8x8xf32>
  %w12 = tape.transpose %w11 by [1, 0] : tensor<8x8xf32>
  %w13 = tape.transpose %w12 by [1, 0] : tensor<8x8xf32>
  %w14 = tape.transpose %w13 by [1, 0] : tensor<8x8xf32>
  %w15 = tape.transpose %w14 by [1, 0] : tensor<8x8xf32>
  %w16 = tape.transpose %w15 by [1, 0] : tensor<8x8xf32>
  %w17 = tape.transpose %w16 by [1, 0] : tensor<8x8xf32>
  %w18 = tape.transpose %w17 by [1, 0] : tensor<8x8xf32>
  %w19 = tape.transpose %w18 by [1, 0] : tensor<8x8xf32>
  %w20 = tape.transpose %w19 by [1, 0] : tensor<8x8xf32>
  %w21 = tape.transpose %w20 by [1, 0] : tensor<8x8xf32>
  %w22 = tape.transpose %w21 by [1, 0] : tensor<8x8xf32>
  %w23 = tape.transpose %w22 by [1, 0] : tensor<8x8xf32>
  %w24 = tape.transpose %w23 by [1, 0] : tensor<8x8xf32>
  %w25 = tape.transpose %w24 by [1, 0] : tensor<8x8xf32>
  %w26 = tape.transpose %w25 by [1, 0] : tensor<8x8xf32>
  %w27 = tape.transpose %w26 by [1, 0] : tensor<8x8xf32>
  %w28 = tape.transpose %w27 by [1, 0] : tensor<8x8xf32>
  %w29 = tape.transpose %w28 by [1, 0] : tensor<8x8xf32>
  %w30 = tape.transpose %w29 by [1, 0] : tensor<8x8xf32>
  %w31 = tape.transpose %w30 by [1, 0] : tensor<8x8xf32>
  %w32 = tape.transpose %w31 by [1, 0] : tensor<8x8xf32>
  %w33 = tape.transpose %w32 by [1, 0] : tensor<8x8xf32>
  %w34 = tape.transpose %w33 by [1, 0] : tensor<8x8xf32>
  %w35 = tape.transpose %w34 by [1, 0] : tensor<8x8xf32>
  %w36 = tape.transpose %w35 by [1, 0] : tensor<8x8xf32>
  %w37 = tape.transpose %w36 by [1, 0] : tensor<8x8xf32>
  %w38 = tape.transpose %w37 by [1, 0] : tensor<8x8xf32>
  %w39 = tape.transpose %w38 by [1, 0] : tensor<8x8xf32>
  %w40 = tape.transpose %w39 by [1, 0] : tensor<8x8xf32>
  %w41 = tape.transpose %w40 by [1, 0] : tensor<8x8xf32>
  %w42 = tape.transpose %w41 by [1, 0] : tensor<8x8xf32>
  %w43 = tape.transpose %w42 by [1, 0] : tensor<8x8xf32>
  %w44 = tape.transpose %w43 by [1, 0] : tensor<8x8xf32>
  %w45 = tape.transpose %w44 by [1, 0] : tensor<8x8xf32>
  %w46 = tape.transpose %w45 by [1, 0] : tensor<8x8xf32>
  %w47 = tape.transpose %w46 by [1, 0] : tensor<8x8xf32>
  %w48 = tape.transpose %w47 by [1, 0] : tensor<8x8xf32>
  %0 = tape.dot_general %x, %w48 batch [] x [] contract [1] x [1] : tensor<8x8xf32>, tensor<8x8xf32>
  %1 = tape.dot_general %x, %w48 batch [] x [] contract [1] x [0] : tensor<8x8xf32>, tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
