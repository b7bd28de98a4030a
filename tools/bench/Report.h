// What `tapeout bench` prints and writes.
#pragma once

#include "tools/bench/Bench.h"

#include <string>

namespace tapeout::bench {

/// The table for people.
std::string tableOf(const Report &report);
/// The same numbers for programs; docs/bench.md explains every field.
std::string jsonOf(const Report &report);
/// The comparison of two executables as bars, an SVG that suits light and dark pages.
std::string plotOf(const Report &report);

} // namespace tapeout::bench
