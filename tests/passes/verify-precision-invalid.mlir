// RUN: tapeout-opt %s --split-input-file --verify-diagnostics --tape-verify-precision

// An op that must be f32.
func.func @never(%x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{'tape.softmax' must run in f32, but an operand is of low precision}}
  %0 = tape.softmax %x : tensor<8x8xbf16>
  return %0 : tensor<8x8xbf16>
}

// -----

// An op that is f32 inside.
func.func @inside(%x: tensor<8x8xbf16>, %gamma: tensor<8xbf16>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{'tape.rms_norm' must run in f32, but an operand is of low precision}}
  %0, %1 = tape.rms_norm %x, %gamma eps 1.0e-5 : (tensor<8x8xbf16>, tensor<8xbf16>) -> (tensor<8x8xbf16>, tensor<8xbf16>)
  return %0 : tensor<8x8xbf16>
}

// -----

// The optimizer.
func.func @optimizer(%x: tensor<8x8xbf16>, %y: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{'tape.multiply' must run in f32, but an operand is of low precision}}
  %0 = tape.multiply %x, %y {tape.phase = "optimizer"} : tensor<8x8xbf16>, tensor<8x8xbf16>
  return %0 : tensor<8x8xbf16>
}

// -----

// Tensors that differ.
func.func @mixed(%x: tensor<8x8xbf16>, %y: tensor<8x8xf32>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{'tape.add' reads both 'bf16' and 'f32'}}
  %0 = tape.add %x, %y : tensor<8x8xbf16>, tensor<8x8xf32>
  return %0 : tensor<8x8xbf16>
}

// -----

// A weight that is narrowed for each of its readers.
// expected-error @+1 {{parameter 'w' is narrowed 2 times in @twice instead of once}}
func.func @twice(%w: tensor<8xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0 = tape.convert %w to bf16 : tensor<8xf32>
  %1 = tape.convert %w to bf16 : tensor<8xf32>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}

// -----

// A copy that a step forgets.
// expected-error @+1 {{'copy/w' is not updated with its parameter}}
func.func @step(%w: tensor<8xf32> {tape.role = "parameter", tape.name = "w"},
                %c: tensor<8xbf16> {tape.role = "copy", tape.name = "copy/w"}) -> (tensor<8xf32> {tape.updates = 0 : i64}) {
  %0 = tape.negate %w : tensor<8xf32>
  return %0 : tensor<8xf32>
}
