// What a trace says in numbers.
#pragma once

#include "runtime/Trace.h"

namespace tapeout::rt {

/// Some lines: by which means the steps were traced, whether their graphs hold everything, and how long the device was busy.
std::string traceSummary(const TracedSteps &steps);

/// The summary, a line per step, and a line per kind of instruction, slowest first: instructions of one name, phase and layer,
/// where layers that differ in a number count as one; below it a line per kernel, where there are several. Milliseconds and
/// calls are those of one step on average; `roof` is the share of the device's bandwidth or product rate, whichever is nearer,
/// where they were measured.
std::string traceTable(const Plan &plan, const TracedSteps &steps);

} // namespace tapeout::rt
