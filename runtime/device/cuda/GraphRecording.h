// Which instruction each kernel of a replayed graph belongs to.
//
// Records name no instruction, and the node they name is one of the executable graph, which is a copy of the captured one.
// But work of a stream begins in the order in which it was captured: if an instruction left n nodes in the graph, then the next
// n records are its own. Counts and the names of the plan's own kernels are checked.
#pragma once

#include "runtime/Recording.h"
#include "runtime/device/cuda/CuptiRecorder.h"

#include <span>

namespace tapeout::rt {

/// A graph that was replayed once.
struct Replay {
  const plan::Program *program;
  std::span<const uint32_t> nodes; ///< that leave a record, by instruction
};

/// `records` by begin, `replays` in their order. Failed where they do not fit together.
Result<Recording> attributeRecords(const Plan &plan, std::vector<DeviceRecord> records, std::span<const Replay> replays);

} // namespace tapeout::rt
