#include "runtime/device/cuda/GraphRecording.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tapeout::rt {
namespace {

using Kind = DeviceRecord::Kind;
using Clock = std::chrono::steady_clock;

Clock::time_point timeOf(uint64_t nanoseconds) { return Clock::time_point(std::chrono::nanoseconds(nanoseconds)); }

std::string nameOf(DeviceRecord &record) {
  if (record.kind == Kind::Kernel)
    return std::move(record.name);
  return record.kind == Kind::Fill ? "fill" : record.kind == Kind::CopyToHost ? "copy to the host" : "copy";
}

Status mismatch(const std::string &what) {
  return Status::error(ExitCode::Failed,
                       fmt::format("the trace does not fit the plan: {}; run without --trace, and report it with the versions of "
                                   "the start line", what));
}

/// The symbol that the only kernel of an instruction must have; empty for what is left to libraries.
std::string_view ownSymbol(const Plan &plan, const plan::Instruction &instruction) {
  const plan::Launch *launch = instruction.body_as_Launch();
  return launch ? plan.root().kernels()->Get(launch->kernel())->symbol()->string_view() : std::string_view();
}

} // namespace

Result<Recording> attributeRecords(const Plan &plan, std::vector<DeviceRecord> records, std::span<const Replay> replays) {
  Recording recording{.means = {}, .runs = {}, .graphs = GraphCheck(), .roofs = {}};
  auto inGraphs = std::stable_partition(records.begin(), records.end(), [](const DeviceRecord &r) { return !r.inGraph; });
  size_t expected = 0;
  for (const Replay &replay : replays)
    expected = std::accumulate(replay.nodes.begin(), replay.nodes.end(), expected);
  recording.graphs->inside = static_cast<size_t>(records.end() - inGraphs);
  if (recording.graphs->inside != expected)
    return mismatch(fmt::format("{} replays launched {} kernels, copies and fills, and CUPTI saw {}", replays.size(), expected,
                                recording.graphs->inside));
  auto next = inGraphs;
  for (const Replay &replay : replays) {
    RecordedRun &run = recording.runs.emplace_back(RecordedRun{replay.program, {}});
    const auto first = next;
    uint64_t end = 0;
    for (uint32_t i = 0; i < replay.nodes.size(); ++i) {
      const plan::Instruction &instruction = *replay.program->instructions()->Get(i);
      std::string_view symbol = ownSymbol(plan, instruction);
      for (uint32_t node = 0; node < replay.nodes[i]; ++node, ++next) {
        if (!symbol.empty() && next->name != symbol)
          return mismatch(fmt::format("instruction {} launches '{}', but CUPTI saw '{}'", i, symbol, next->name));
        recording.graphs->hostReads += next->kind == Kind::CopyToHost;
        end = std::max(end, next->end);
        run.activities.push_back({&instruction, nameOf(*next), timeOf(next->begin), timeOf(next->end)});
      }
    }
    for (auto outside = records.begin(); first != next && outside != inGraphs; ++outside)
      recording.graphs->hostReads += outside->kind == Kind::CopyToHost && outside->end > first->begin && outside->begin < end;
  }
  recording.graphs->outside =
      std::count_if(records.begin(), inGraphs, [](const DeviceRecord &r) { return r.kind == Kind::Kernel; });
  return recording;
}

} // namespace tapeout::rt
