// RUN: tapeout-opt %s --split-input-file --verify-diagnostics

// Elementwise operands have one shape, or rank 0.
func.func @add(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{operands have different shapes}}
  %0 = tape.add %a, %b : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

// A reshape keeps the number of elements.
func.func @reshape(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{the element counts differ}}
  %0 = tape.reshape %a to [7] : tensor<2x3xf32>
  return
}

// -----

func.func @transpose(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{is not a permutation of the operand's dimensions}}
  %0 = tape.transpose %a by [0, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce(%a: tensor<2x3x4xf32>) {
  // expected-error@+1 {{reduce needs consecutive dimensions}}
  %0 = tape.reduce "sum" %a over [0, 2] : tensor<2x3x4xf32>
  return
}

// -----

func.func @keyword(%a: tensor<2xf32>) {
  // expected-error@+1 {{failed to satisfy constraint: string attribute one of sum, max}}
  %0 = tape.reduce "product" %a over [0] : tensor<2xf32>
  return
}

// -----

func.func @dot(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{paired dimensions have different extents}}
  %0 = tape.dot_general %a, %b batch [] x [] contract [1] x [1] : tensor<2x3xf32>, tensor<4x5xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x5x3x4xf32>, %k: tensor<2x6x3x4xf32>) {
  // expected-error@+1 {{causal attention needs as many keys as queries}}
  %0, %1 = tape.attention %q, %k, %k {causal = true, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>
  return
}

// -----

func.func @attention_lengths(%q: tensor<2x5x3x4xf32>, %lengths: tensor<3xi32>) {
  // expected-error@+1 {{attention with padding needs a length for each of the 2 sequences and as many keys as queries}}
  %0, %1 = tape.attention %q, %q, %q lengths %lengths : tensor<3xi32> {causal = false, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
  return
}

// -----

func.func @attention_other_keys(%q: tensor<2x5x3x4xf32>, %k: tensor<2x6x3x4xf32>, %lengths: tensor<2xi32>) {
  // expected-error@+1 {{attention with padding needs a length for each of the 2 sequences and as many keys as queries}}
  %0, %1 = tape.attention %q, %k, %k lengths %lengths : tensor<2xi32> {causal = false, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>
  return
}

// -----

func.func @dropout(%a: tensor<2xf32>) {
  // expected-error@+1 {{rate 1.000000e+00 is not in [0, 1)}}
  %0 = tape.dropout %a rate 1.0 : tensor<2xf32>
  return
}

// -----

func.func @groups(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x2x4xf32>) {
  // expected-error@+1 {{the heads of the query are a multiple of those of the key}}
  %0, %1 = tape.attention %q, %k, %k {causal = true, scale = 0.5} : tensor<2x5x3x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>
  return
}

// -----

func.func @slice(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{cannot slice 'tensor<2x3xf32>' from [0, 2] to [2, 4]}}
  %0 = tape.slice %a from [0, 2] to [2, 4] : tensor<2x3xf32>
  return
}

// -----

func.func @concatenate(%a: tensor<2x3xf32>, %b: tensor<3x3xf32>) {
  // expected-error@+1 {{cannot concatenate 'tensor<2x3xf32>' and 'tensor<3x3xf32>' along dimension 1}}
  %0 = tape.concatenate %a, %b dim 1 : tensor<2x3xf32>, tensor<3x3xf32>
  return
}

// -----

func.func @rope(%x: tensor<2x5x3x4xf32>, %table: tensor<4x2xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{rope needs [batch, tokens, heads, even size] and tables [tokens, size / 2]}}
  %0 = tape.rope %x, %table, %table : (tensor<2x5x3x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2x5x3x4xf32>
  return
}

// -----

func.func @smoothing(%x: tensor<2x3xf32>, %labels: tensor<2xi32>) {
  // expected-error@+1 {{smoothing 1.000000e+00 is not in [0, 1)}}
  %0, %1 = tape.cross_entropy %x, %labels ignore -100 {smoothing = 1.0} : tensor<2x3xf32>, tensor<2xi32>
  return
}

// -----

func.func @grouped(%x: tensor<2x8x5x5xf32>, %w: tensor<8x4x3x3xf32>) {
  // expected-error@+1 {{grouped convolutions are not supported: the input has 8 channels, each filter 4}}
  %0 = tape.convolution %x, %w strides [1, 1] padding [1, 1, 1, 1] : tensor<2x8x5x5xf32>, tensor<8x4x3x3xf32>
  return
}

// -----

func.func @channels(%x: tensor<2x3x5x5xf32>, %w: tensor<8x4x3x3xf32>) {
  // expected-error@+1 {{the input has 3 channels, but the filters have 4}}
  %0 = tape.convolution %x, %w strides [1, 1] padding [1, 1, 1, 1] : tensor<2x3x5x5xf32>, tensor<8x4x3x3xf32>
  return
}

// -----

func.func @window(%x: tensor<2x3x5x5xf32>) {
  // expected-error@+1 {{a window of 7 x 7 does not fit in planes of 5 x 5}}
  %0, %1 = tape.max_pool %x window [7, 7] strides [1, 1] padding [0, 1, 0, 1] : tensor<2x3x5x5xf32>
  return
}

// -----

func.func @padding(%x: tensor<2x3x5x5xf32>) {
  // expected-error@+1 {{a padding of 2 is as large as the window of 2}}
  %0 = tape.avg_pool %x window [2, 2] strides [1, 1] padding [0, 2, 0, 0] : tensor<2x3x5x5xf32>
  return
}

// -----

func.func @strides(%x: tensor<2x3x5x5xf32>) {
  // expected-error@+1 {{two strides from 1 on}}
  %0 = tape.avg_pool %x window [2, 2] strides [0, 1] padding [0, 0, 0, 0] : tensor<2x3x5x5xf32>
  return
}

// -----

func.func @group_norm(%x: tensor<2x6x5xf32>, %g: tensor<6xf32>) {
  // expected-error@+2 {{group_norm cannot divide 6 channels into 4 equal groups}}
  // expected-error@+1 {{failed to infer returned types}}
  %0:3 = tape.group_norm %x, %g, %g groups 4 eps 1.0e-05 : (tensor<2x6x5xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<2x6x5xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}
