// Measures training executables against each other: all run at the same time, one block of steps after the other
// (A B A B ...), so that whatever else the machine does meets all of them.
#pragma once

#include "runtime/base/Status.h"
#include "tools/bench/Roofs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapeout::bench {

struct Subject {
  std::string label, path; ///< "fusion off", the executable
};

struct MeasureOptions {
  std::string data, labels; ///< empty: random numbers
  int threads = 0;          ///< of each executable; 0: all
  uint64_t steps = 100;     ///< measured of each executable, rounded up to whole blocks
};

struct Statistics {
  double median = 0, least = 0, p10 = 0, p90 = 0;
};
/// Of at least one value; percentiles are interpolated.
Statistics statisticsOf(std::vector<double> values);

/// One executable. Counts and bytes are of one step.
struct Measured {
  std::string label, model, isa;
  int64_t batch = 0;
  int threads = 0;
  uint64_t launches = 0, matrixProducts = 0, attentions = 0, windows = 0, copies = 0; // windows: convolutions and poolings
  uint64_t flops = 0, bytesMoved = 0;  ///< by the cost model
  std::optional<double> bytesMissed;   ///< counted: lines that were not in the last cache; none without a counter
  uint64_t arenaPlanned = 0, arenaResident = 0, processPeak = 0;
  double loss = 0; ///< of the last step; all have made the same number of steps
  Statistics seconds, processorSeconds; ///< of one step; the latter of all threads together
  double memoryRoofShare = 0, arithmeticRoofShare = 0; ///< by the cost model and the median
};

struct Report {
  std::string processor;
  Roofs roofs;
  uint64_t steps = 0, blockSteps = 0;
  std::vector<Measured> measured;
  std::optional<Statistics> ratio; ///< of two: first / second, of the medians of each pair of blocks
  std::string noCounter;           ///< why there is no bytesMissed
};

/// `roofs` is what the shares refer to. Errors: those of the executables, BadData when they are no training executables.
Result<Report> measure(const std::vector<Subject> &subjects, const MeasureOptions &options, const Roofs &roofs);

} // namespace tapeout::bench
