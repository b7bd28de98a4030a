// RUN: tapeout-opt %s --split-input-file --tape-verify-plan --verify-diagnostics

// A value is read before it is written.
module attributes {plan.arena_bytes = 64 : i64, plan.persistent_bytes = 64 : i64} {
  %a = plan.slot "arena" "a" tensor<4xf32> at 0
  %p = plan.slot "parameter" "p" tensor<4xf32> at 0
  plan.program @step inputs []() outputs [] () {
    // expected-error@+1 {{reads slot 'a', which does not hold its value any more or yet}}
    plan.copy(%a) -> (%p)
  }
}

// -----

// Two live values share bytes.
module attributes {plan.arena_bytes = 128 : i64, plan.persistent_bytes = 64 : i64} {
  %a = plan.slot "arena" "a" tensor<32xf32> at 0
  %b = plan.slot "arena" "b" tensor<4xf32> at 64
  %p = plan.slot "parameter" "p" tensor<4xf32> at 0
  plan.program @step inputs []() outputs [] () {
    plan.launch @k() -> (%a)
    plan.launch @k() -> (%b)
    // expected-error@+1 {{reads slot 'a', which does not hold its value any more or yet}}
    plan.copy(%a) -> (%p)
  }
}

// -----

// An input may not be written.
module attributes {plan.arena_bytes = 64 : i64, plan.persistent_bytes = 64 : i64} {
  %i = plan.slot "input" "tokens" tensor<4xf32> at 0
  plan.program @step inputs []() outputs [] () {
    // expected-error@+1 {{writes slot 'tokens', which programs only read}}
    plan.launch @k() -> (%i)
  }
}

// -----

// Persistent slots may not overlap.
module attributes {plan.arena_bytes = 0 : i64, plan.persistent_bytes = 192 : i64} {
  %p = plan.slot "parameter" "p" tensor<32xf32> at 0
  // expected-error@+1 {{overlaps another persistent slot}}
  %q = plan.slot "parameter" "q" tensor<4xf32> at 64
  plan.program @step inputs []() outputs [] () {
    plan.copy(%p) -> (%q)
  }
}

// -----

// Outside of the arena.
module attributes {plan.arena_bytes = 64 : i64, plan.persistent_bytes = 64 : i64} {
  // expected-error@+1 {{at 64 is misaligned or outside its region of 64 bytes}}
  %a = plan.slot "arena" "a" tensor<4xf32> at 64
  plan.program @step inputs []() outputs [] () {
    plan.launch @k() -> (%a)
  }
}

// -----

// Scratch memory may not lie over what the instruction reads.
module attributes {plan.arena_bytes = 512 : i64, plan.persistent_bytes = 1024 : i64} {
  %q = plan.slot "arena" "q" tensor<1x2x1x8xbf16> at 0
  %lse = plan.slot "arena" "lse" tensor<1x1x2xf32> at 64
  %s = plan.slot "arena" "scratch" tensor<32xf32> at 64
  %p = plan.slot "parameter" "p" tensor<1x2x1x8xbf16> at 0
  plan.program @step inputs []() outputs [] () {
    plan.launch @k() -> (%q)
    plan.launch @k() -> (%lse)
    // expected-error@+1 {{uses the memory of slot 'lse' as scratch memory}}
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%p, %p, %p) scratch %s scale 1.0 sizes [1, 1, 1, 2, 8] places []
  }
}

// -----

// Nor over what is read later.
module attributes {plan.arena_bytes = 512 : i64, plan.persistent_bytes = 1024 : i64} {
  %q = plan.slot "arena" "q" tensor<1x2x1x8xbf16> at 0
  %lse = plan.slot "arena" "lse" tensor<1x1x2xf32> at 64
  %later = plan.slot "arena" "later" tensor<1x2x1x8xbf16> at 128
  %s = plan.slot "arena" "scratch" tensor<32xf32> at 128
  %p = plan.slot "parameter" "p" tensor<1x2x1x8xbf16> at 0
  plan.program @step inputs []() outputs [] () {
    plan.launch @k() -> (%q)
    plan.launch @k() -> (%lse)
    plan.launch @k() -> (%later)
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%p, %p, %p) scratch %s scale 1.0 sizes [1, 1, 1, 2, 8] places []
    // expected-error@+1 {{reads slot 'later', which does not hold its value any more or yet}}
    plan.copy(%later) -> (%p)
  }
}

// -----

// Nor in memory that is kept.
module attributes {plan.arena_bytes = 512 : i64, plan.persistent_bytes = 1024 : i64} {
  %q = plan.slot "arena" "q" tensor<1x2x1x8xbf16> at 0
  %lse = plan.slot "arena" "lse" tensor<1x1x2xf32> at 64
  %s = plan.slot "parameter" "p" tensor<1x2x1x8xbf16> at 0
  plan.program @step inputs []() outputs [] () {
    plan.launch @k() -> (%q)
    plan.launch @k() -> (%lse)
    // expected-error@+1 {{uses slot 'p' as scratch memory, which is not in the arena}}
    plan.attention backward (%q, %q, %q, %q, %lse, %q) -> (%q, %q, %q) scratch %s scale 1.0 sizes [1, 1, 1, 2, 8] places []
  }
}
