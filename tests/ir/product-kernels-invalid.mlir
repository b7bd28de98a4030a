// RUN: not tapeout-opt %s --split-input-file 2>&1 | FileCheck %s

// CHECK: gelu_product has no kernel for these operands
func.func @nothing_summed(%x: tensor<4x0xbf16>, %w: tensor<128x0xbf16>, %b: tensor<128xbf16>) -> tensor<4x128xbf16> {
  %y, %s = tape.gelu_product %x, %w, %b summed 1 {approximate = "tanh"} : tensor<4x0xbf16>, tensor<128x0xbf16>, tensor<128xbf16>
  return %y : tensor<4x128xbf16>
}

// -----

// More features than the kernels count.
// CHECK: scaled_product has no kernel for these operands
func.func @wide(%x: tensor<4x64xbf16>, %w: tensor<4294967296x64xbf16>, %s: tensor<4x4294967296xbf16>) -> tensor<4x4294967296xbf16> {
  %y, %c = tape.scaled_product %x, %w, %s summed 1 : tensor<4x64xbf16>, tensor<4294967296x64xbf16>, tensor<4x4294967296xbf16>
  return %y : tensor<4x4294967296xbf16>
}
