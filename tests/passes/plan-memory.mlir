// RUN: tapeout-opt %s --split-input-file --tape-plan-memory --tape-verify-plan | FileCheck %s

// Scratch memory takes the largest of its sizes for which there is room where other values are dead.
module {
  // CHECK: plan.slot "arena" "scratch" tensor<536870912xf32> at 64{{$}}
  %q = plan.slot "input" "q" tensor<1x2x1x8xbf16>
  %lse = plan.slot "arena" "lse" tensor<1x1x2xf32>
  %dead = plan.slot "arena" "dead" tensor<1073741824xf32>
  %p = plan.slot "output" "p" tensor<1x2x1x8xbf16>
  %s = plan.slot "arena" "scratch" tensor<2147483648xf32> sizes [8589934592, 2147483648, 1073741824]
  plan.program @step inputs ["q"](%q) outputs ["p"] (%p) {
    plan.launch @k() -> (%dead)
    plan.launch @k() -> (%lse)
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%p, %p, %p) scratch %s scale 1.0 sizes [1, 1, 1, 2, 8] places []
  }
}

// -----

// Where there is none, it takes what is granted, or its smallest size.
module {
  // CHECK: plan.slot "arena" "scratch" tensor<134217728xf32> at {{[0-9]+$}}
  // CHECK: plan.slot "arena" "large" tensor<268435456xf32> at {{[0-9]+$}}
  %q = plan.slot "input" "q" tensor<1x2x1x8xbf16>
  %lse = plan.slot "arena" "lse" tensor<1x1x2xf32>
  %p = plan.slot "output" "p" tensor<1x2x1x8xbf16>
  %s = plan.slot "arena" "scratch" tensor<268435456xf32> sizes [1073741824, 536870912, 268435456]
  %large = plan.slot "arena" "large" tensor<536870912xf32> sizes [2147483648, 1073741824]
  plan.program @step inputs ["q"](%q) outputs ["p"] (%p) {
    plan.launch @k() -> (%lse)
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%p, %p, %p) scratch %s scale 1.0 sizes [1, 1, 1, 2, 8] places []
  }
  plan.program @other inputs ["q"](%q) outputs ["p"] (%p) {
    plan.launch @k() -> (%lse)
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%p, %p, %p) scratch %large scale 1.0 sizes [1, 1, 1, 2, 8] places []
  }
}
