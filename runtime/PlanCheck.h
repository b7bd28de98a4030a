// The checks behind Plan::load. Plan users include Plan.h only.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan_generated.h"

namespace tapeout::rt {

/// Everything a FlatBuffers verifier cannot know: presence, indices, sizes, offsets, strides, kinds, names.
/// Expects a buffer that passed the verifier. The first fault is the error (BadData).
Status checkPlan(const plan::Plan &plan);

} // namespace tapeout::rt
