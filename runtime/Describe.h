// --describe: what a training executable holds, as text for people.
#pragma once

#include "runtime/Plan.h"

#include <string>

namespace tapeout::rt {

std::string describePlan(const Plan &plan);

} // namespace tapeout::rt
