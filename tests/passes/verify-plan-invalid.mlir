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
