// RUN: tapeout-opt %s --tape-select-product-kernels=hopper=true --tape-decompose --canonicalize --tape-form-fusion-groups --tape-verify-fusion-groups --tape-lower-to-plan --tape-plan-memory --tape-verify-plan | FileCheck %s

// The kernels of products around a GELU are launches; what GELU is of is nowhere. The bias's gradient is a small reduction.
// CHECK:      plan.launch @[[FORWARD:.*_gelu_product]](%{{.*}}, %{{.*}}, %{{.*}}) -> (%{{.*}}, %[[S:.*]]) {{.*}}flops = 3472883712
// CHECK-NEXT: plan.launch @[[BACKWARD:.*_scaled_product]](%{{.*}}, %{{.*}}, %[[S]]) -> (%{{.*}}, %[[P:.*]]) {
// CHECK-NEXT: plan.launch @{{.*}}_reduce(%[[P]])
module attributes {tape.target = "cuda"} {
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
}
