// What CudaExecutor does to record its runs.
#include "runtime/Trace.h"
#include "runtime/device/cuda/CudaExecutor.h"
#include "runtime/device/cuda/CudaRoofs.h"
#include "runtime/device/cuda/GraphRecording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace tapeout::rt {
namespace {

constexpr const char *kByEvents = "events between instructions, which were launched one by one";

/// Operand types of library calls.
std::vector<ElementType> productTypes(const Plan &plan, const std::vector<RecordedRun> &runs) {
  std::vector<ElementType> types;
  for (const RecordedRun &run : runs)
    for (const Activity &activity : run.activities)
      if (std::optional<ElementType> type = productType(plan, *activity.instruction))
        if (std::find(types.begin(), types.end(), *type) == types.end())
          types.push_back(*type);
  return types;
}

} // namespace

/// Graphs are made anew, so that the recorder knows their nodes.
void CudaExecutor::forgetGraphs() {
  for (Prepared &prepared : programs_) {
    prepared.graph = {};
    prepared.nodes.clear();
  }
}

Status CudaExecutor::startRecording() {
  TAPEOUT_RETURN_IF_ERROR(synchronize());
  forgetGraphs();
  recording_.emplace();
  if (checkMemory_) {
    recording_->means = fmt::format("{}, as memory was checked", kByEvents);
    return Status::ok();
  }
  Result<Cupti> cupti = openCupti_();
  Result<std::unique_ptr<CuptiRecorder>> recorder = cupti.isOk() ? CuptiRecorder::start(*cupti) : cupti.status();
  if (recorder.isOk())
    recorder_ = std::move(*recorder);
  else
    recording_->means = fmt::format("{}, because {}", kByEvents, recorder.status().message());
  return Status::ok();
}

/// Nodes of the graph that is being captured, as far as they leave a record.
Result<uint32_t> CudaExecutor::capturedNodes() const {
  int state = 0;
  uint64_t id = 0;
  size_t count = 0;
  CuGraph graph = nullptr;
  auto check = [&](CuResult result) { return driver_.check(result, "the step's graph cannot be read"); };
  TAPEOUT_RETURN_IF_ERROR(check(driver_.streamGetCaptureInfo(stream_.get(), &state, &id, &graph, nullptr, nullptr)));
  TAPEOUT_RETURN_IF_ERROR(check(driver_.graphGetNodes(graph, nullptr, &count)));
  std::vector<CuGraphNode> nodes(count);
  if (count > 0)
    TAPEOUT_RETURN_IF_ERROR(check(driver_.graphGetNodes(graph, nodes.data(), &count)));
  uint32_t recorded = 0;
  for (CuGraphNode node : nodes) {
    int type = 0;
    TAPEOUT_RETURN_IF_ERROR(check(driver_.graphNodeGetType(node, &type)));
    recorded += type == kCuNodeKernel || type == kCuNodeCopy || type == kCuNodeFill;
  }
  return recorded;
}

Result<Recording> CudaExecutor::finishRecording() {
  assert(recording_ && "startRecording");
  TAPEOUT_RETURN_IF_ERROR(synchronize());
  Recording recording = *std::exchange(recording_, std::nullopt);
  std::unique_ptr<CuptiRecorder> recorder = std::exchange(recorder_, nullptr);
  const std::vector<RecordedReplay> replayed = std::exchange(replays_, {});
  if (recorder && replayed.empty()) {
    recording.means = fmt::format("{}, as a program's first run always is", kByEvents);
  } else if (recorder) {
    Result<std::vector<DeviceRecord>> records = recorder->finish();
    if (!records.isOk())
      return records.status();
    std::vector<Replay> replays;
    for (const RecordedReplay &replay : replayed)
      replays.push_back({replay.prepared->program, replay.prepared->nodes});
    Result<Recording> attributed = attributeRecords(plan(), std::move(*records), replays);
    if (!attributed.isOk())
      return attributed.status();
    recording.means = recorder->name() + ", while graphs were replayed";
    recording.graphs = attributed->graphs;
    for (size_t i = 0; i < replayed.size(); ++i)
      recording.runs[replayed[i].run] = std::move(attributed->runs[i]);
  }
  recorder.reset();
  forgetGraphs();
  Result<Roofs> roofs = measureRoofs(driver_, blas_, productTypes(plan(), recording.runs), stream_.get());
  if (!roofs.isOk())
    return roofs.status();
  recording.roofs = std::move(*roofs);
  return recording;
}

} // namespace tapeout::rt
