// Kernels in the form that the compiler gives them, by hand.
#pragma once

namespace tapeout::rt::test {

inline constexpr const char *kKernelsPtx = R"(
.version 7.0
.target sm_80
.address_size 64

// (x, y) -> y: y = 0.5 y + x, one thread per element
.visible .entry scale_add(.param .u64 x, .param .u64 old, .param .u64 y) {
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %p<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %p1, %r4, 4;
  ld.param.u64 %p2, [x];
  ld.param.u64 %p3, [old];
  ld.param.u64 %p4, [y];
  add.u64 %p2, %p2, %p1;
  add.u64 %p3, %p3, %p1;
  add.u64 %p4, %p4, %p1;
  ld.global.f32 %f1, [%p2];
  ld.global.f32 %f2, [%p3];
  fma.rn.f32 %f3, %f2, 0f3F000000, %f1;
  st.global.f32 [%p4], %f3;
  ret;
}

// The same with its arguments in a table.
.visible .entry scale_add_table(.param .u64 table) {
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %p<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %p1, %r4, 4;
  ld.param.u64 %p5, [table];
  ld.global.u64 %p2, [%p5];
  ld.global.u64 %p3, [%p5+8];
  ld.global.u64 %p4, [%p5+16];
  add.u64 %p2, %p2, %p1;
  add.u64 %p3, %p3, %p1;
  add.u64 %p4, %p4, %p1;
  ld.global.f32 %f1, [%p2];
  ld.global.f32 %f2, [%p3];
  fma.rn.f32 %f3, %f2, 0f3F000000, %f1;
  st.global.f32 [%p4], %f3;
  ret;
}

// (x) -> y: 256 numbers in reverse order, through 96 KiB of shared memory
.extern .shared .align 16 .b8 scratch[];
.visible .entry reverse(.param .u64 x, .param .u64 y) {
  .reg .b32 %r<8>;
  .reg .f32 %f<3>;
  .reg .b64 %p<5>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %p1, %r1, 4;
  ld.param.u64 %p2, [x];
  ld.param.u64 %p3, [y];
  add.u64 %p2, %p2, %p1;
  add.u64 %p3, %p3, %p1;
  ld.global.f32 %f1, [%p2];
  mov.u32 %r2, scratch;
  mad.lo.u32 %r3, %r1, 384, %r2;
  st.shared.f32 [%r3], %f1;
  bar.sync 0;
  sub.u32 %r4, 255, %r1;
  mad.lo.u32 %r5, %r4, 384, %r2;
  ld.shared.f32 %f2, [%r5];
  st.global.f32 [%p3], %f2;
  ret;
}

// (x, counter) -> loss: the first number of x plus the counter, one thread
.visible .entry loss(.param .u64 x, .param .u64 counter, .param .u64 result) {
  .reg .f32 %f<4>;
  .reg .b64 %p<5>;
  ld.param.u64 %p1, [x];
  ld.param.u64 %p2, [counter];
  ld.param.u64 %p3, [result];
  ld.global.f32 %f1, [%p1];
  ld.global.u64 %p4, [%p2];
  cvt.rn.f32.s64 %f2, %p4;
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%p3], %f3;
  ret;
}

// (counter) -> counter, one thread
.visible .entry count(.param .u64 old, .param .u64 counter) {
  .reg .b64 %p<4>;
  ld.param.u64 %p1, [old];
  ld.param.u64 %p2, [counter];
  ld.global.u64 %p3, [%p1];
  add.s64 %p3, %p3, 1;
  st.global.u64 [%p2], %p3;
  ret;
}
)";

} // namespace tapeout::rt::test
