// RUN: tapeout-opt %s --split-input-file --tape-verify-train-step --verify-diagnostics

// A trainable parameter must be updated once.
// expected-error@+1 {{argument 'w' of @step is updated 0 times}}
func.func @step(%w: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<2xf32> {tape.name = "loss"}) {
  return %w : tensor<2xf32>
}

// -----

// A frozen one never.
// expected-error@+1 {{argument 'w' of @step is updated 1 times}}
func.func @step(%w: tensor<2xf32> {tape.role = "parameter", tape.name = "w", tape.frozen}) -> (tensor<2xf32> {tape.updates = 0 : i64}) {
  return %w : tensor<2xf32>
}

// -----

// A gradient must not be left over.
// expected-error@+1 {{result 1 of @step is a gradient no optimizer has consumed}}
func.func @step(%w: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<2xf32> {tape.updates = 0 : i64}, tensor<2xf32> {tape.gradient_of = 0 : i64}) {
  return %w, %w : tensor<2xf32>, tensor<2xf32>
}

// -----

// Random ops need their key.
func.func @step(%w: tensor<2xf32> {tape.role = "parameter", tape.name = "w"}) -> (tensor<2xf32> {tape.updates = 0 : i64}) {
  // expected-error@+1 {{draws random numbers without a key}}
  %0 = tape.dropout %w rate 5.0e-01 : tensor<2xf32>
  return %0 : tensor<2xf32>
}
