// RUN: tapeout-opt %s --split-input-file --tape-select-product-kernels=hopper=true | tapeout-opt --split-input-file | FileCheck %s
// RUN: tapeout-opt %s --split-input-file --tape-select-product-kernels | FileCheck %s --check-prefix=OTHER

// OTHER-NOT: gelu_product
// OTHER-NOT: scaled_product
module attributes {tape.target = "cuda"} {
  // The product before GELU gives its slope besides; the product that gives GELU's gradient multiplies by it. The gradient of the
  // bias adds up the sums of tiles of 160 rows.
  // CHECK-LABEL: @step
  // CHECK:      %[[Y:.*]], %[[SLOPE:.*]] = tape.gelu_product %arg0, %arg1, %arg2 summed 1 {approximate = "tanh"} : tensor<24x1024x128xbf16>, tensor<512x128xbf16>, tensor<512xbf16>
  // CHECK-NEXT: %[[D:.*]], %[[SUMS:.*]] = tape.scaled_product %arg0, %arg3, %[[SLOPE]] summed 0 {tape.phase = "backward"} : tensor<24x1024x128xbf16>, tensor<128x512xbf16>, tensor<24x1024x512xbf16>
  // CHECK: %[[B:.*]] = tape.reduce "sum" %[[SUMS]] over [0] : tensor<154x512xf32>
  // CHECK-NEXT: return %[[Y]], %[[D]], %[[B]]
  func.func @step(%x: tensor<24x1024x128xbf16> {tape.role = "input", tape.name = "x"},
                  %w: tensor<512x128xbf16> {tape.role = "input", tape.name = "w"}, %b: tensor<512xbf16> {tape.role = "input", tape.name = "b"},
                  %v: tensor<128x512xbf16> {tape.role = "input", tape.name = "v"})
      -> (tensor<24x1024x512xbf16> {tape.name = "y"}, tensor<24x1024x512xbf16> {tape.name = "d"}, tensor<512xf32> {tape.name = "db"}) {
    %p = tape.dot_general %x, %w batch [] x [] contract [2] x [1] : tensor<24x1024x128xbf16>, tensor<512x128xbf16>
    %r = tape.broadcast_in_dim %b to [24, 1024, 512] dims [2] : tensor<512xbf16>
    %h = tape.add %p, %r : tensor<24x1024x512xbf16>, tensor<24x1024x512xbf16>
    %y = tape.gelu %h {approximate = "tanh"} : tensor<24x1024x512xbf16>
    %g = tape.dot_general %x, %v batch [] x [] contract [2] x [0] {tape.phase = "backward"} : tensor<24x1024x128xbf16>, tensor<128x512xbf16>
    %d = tape.gelu_grad %h, %g {approximate = "tanh", tape.phase = "backward"} : tensor<24x1024x512xbf16>, tensor<24x1024x512xbf16>
    %f = tape.convert %d to f32 : tensor<24x1024x512xbf16>
    %s = tape.reduce "sum" %f over [0, 1] : tensor<24x1024x512xf32>
    return %y, %d, %s : tensor<24x1024x512xbf16>, tensor<24x1024x512xbf16>, tensor<512xf32>
  }

  // In any order.
  // CHECK-LABEL: @gradient_first
  // CHECK:      tape.gelu_product
  // CHECK-NEXT: tape.scaled_product
  func.func @gradient_first(%x: tensor<24576x128xbf16>, %w: tensor<512x128xbf16>, %b: tensor<512xbf16>, %v: tensor<128x512xbf16>)
      -> (tensor<24576x512xbf16>, tensor<24576x512xbf16>) {
    %p = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<24576x128xbf16>, tensor<512x128xbf16>
    %r = tape.broadcast_in_dim %b to [24576, 512] dims [1] : tensor<512xbf16>
    %h = tape.add %p, %r : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %g = tape.dot_general %x, %v batch [] x [] contract [1] x [0] : tensor<24576x128xbf16>, tensor<128x512xbf16>
    %d = tape.gelu_grad %h, %g {approximate = "none"} : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %y = tape.gelu %h {approximate = "none"} : tensor<24576x512xbf16>
    return %y, %d : tensor<24576x512xbf16>, tensor<24576x512xbf16>
  }

  // Too few tiles for the GPU.
  // CHECK-LABEL: @small
  // CHECK: tape.gelu_grad
  func.func @small(%x: tensor<1024x128xbf16>, %w: tensor<512x128xbf16>, %b: tensor<512xbf16>, %v: tensor<128x512xbf16>)
      -> (tensor<1024x512xbf16>, tensor<1024x512xbf16>) {
    %p = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<1024x128xbf16>, tensor<512x128xbf16>
    %r = tape.broadcast_in_dim %b to [1024, 512] dims [1] : tensor<512xbf16>
    %h = tape.add %p, %r : tensor<1024x512xbf16>, tensor<1024x512xbf16>
    %y = tape.gelu %h {approximate = "tanh"} : tensor<1024x512xbf16>
    %g = tape.dot_general %x, %v batch [] x [] contract [1] x [0] : tensor<1024x128xbf16>, tensor<128x512xbf16>
    %d = tape.gelu_grad %h, %g {approximate = "tanh"} : tensor<1024x512xbf16>, tensor<1024x512xbf16>
    return %y, %d : tensor<1024x512xbf16>, tensor<1024x512xbf16>
  }

  // Another one reads what GELU is of; its gradient comes from no product; there is no gradient; 100 features are no tiles.
  // CHECK-LABEL: @others
  // CHECK-NOT: gelu_product
  func.func @others(%x: tensor<24576x128xbf16>, %w: tensor<512x128xbf16>, %b: tensor<512xbf16>, %n: tensor<100x128xbf16>, %c: tensor<100xbf16>,
                    %g: tensor<24576x512xbf16>, %v: tensor<128x512xbf16>, %u: tensor<128x100xbf16>)
      -> (tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>,
          tensor<24576x512xbf16>, tensor<24576x100xbf16>, tensor<24576x100xbf16>) {
    %r = tape.broadcast_in_dim %b to [24576, 512] dims [1] : tensor<512xbf16>
    %p0 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<24576x128xbf16>, tensor<512x128xbf16>
    %h0 = tape.add %p0, %r : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %y0 = tape.gelu %h0 {approximate = "tanh"} : tensor<24576x512xbf16>
    %g0 = tape.dot_general %x, %v batch [] x [] contract [1] x [0] : tensor<24576x128xbf16>, tensor<128x512xbf16>
    %d0 = tape.gelu_grad %h0, %g0 {approximate = "tanh"} : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %p1 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<24576x128xbf16>, tensor<512x128xbf16>
    %h1 = tape.add %p1, %r : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %y1 = tape.gelu %h1 {approximate = "tanh"} : tensor<24576x512xbf16>
    %d1 = tape.gelu_grad %h1, %g {approximate = "tanh"} : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %p2 = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<24576x128xbf16>, tensor<512x128xbf16>
    %h2 = tape.add %p2, %r : tensor<24576x512xbf16>, tensor<24576x512xbf16>
    %y2 = tape.gelu %h2 {approximate = "tanh"} : tensor<24576x512xbf16>
    %p3 = tape.dot_general %x, %n batch [] x [] contract [1] x [1] : tensor<24576x128xbf16>, tensor<100x128xbf16>
    %r3 = tape.broadcast_in_dim %c to [24576, 100] dims [1] : tensor<100xbf16>
    %h3 = tape.add %p3, %r3 : tensor<24576x100xbf16>, tensor<24576x100xbf16>
    %y3 = tape.gelu %h3 {approximate = "tanh"} : tensor<24576x100xbf16>
    %g3 = tape.dot_general %x, %u batch [] x [] contract [1] x [0] : tensor<24576x128xbf16>, tensor<128x100xbf16>
    %d3 = tape.gelu_grad %h3, %g3 {approximate = "tanh"} : tensor<24576x100xbf16>, tensor<24576x100xbf16>
    return %y0, %d0, %h0, %y1, %d1, %y2, %y3, %d3 : tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>, tensor<24576x512xbf16>,
        tensor<24576x512xbf16>, tensor<24576x100xbf16>, tensor<24576x100xbf16>
  }
}
