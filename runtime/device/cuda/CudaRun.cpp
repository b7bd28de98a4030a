// The runs of CudaExecutor, and what the host reads and writes between them.
#include "runtime/Trace.h"
#include "runtime/device/cuda/CudaExecutor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

namespace tapeout::rt {

constexpr uint64_t kReadBytes = uint64_t(64) << 20; // of the arena at a time

Status CudaExecutor::queue(const Launch &launch) const {
  std::vector<void *> parameters; // the driver copies what they point to
  for (const CuDevicePointer &argument : launch.arguments)
    parameters.push_back(const_cast<CuDevicePointer *>(&argument));
  for (const CuTensorMap &map : launch.tensorMaps)
    parameters.push_back(const_cast<CuTensorMap *>(&map));
  return driver_.check(driver_.launchKernel(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.sharedBytes,
                                            stream_.get(), parameters.data(), nullptr),
                       "the kernel cannot be launched");
}

Status CudaExecutor::queue(const CudnnAttention &attention) const {
  if (const CudnnWorkspace &sums = attention.accumulator(); sums.bytes > 0)
    TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.memsetD8Async(sums.address, 0, sums.bytes, stream_.get()),
                                          "the sums of attention cannot be cleared"));
  return attention.run();
}

Status CudaExecutor::queue(const Prepared &prepared, size_t index) {
  const Instruction &instruction = prepared.instructions[index];
  Status status;
  if (const auto *launch = std::get_if<Launch>(&instruction)) {
    status = queue(*launch);
  } else if (const auto *product = std::get_if<Product>(&instruction)) {
    status = products_[product->index].run();
  } else if (const auto *attention = std::get_if<Attention>(&instruction)) {
    status = queue(attentions_[attention->index]);
  } else {
    const auto &copy = std::get<Copy>(instruction);
    status = driver_.check(driver_.memcpyDtoDAsync(copy.destination, copy.source, copy.bytes, stream_.get()),
                           "the copy cannot be queued");
  }
  if (status.isOk())
    return status;
  const plan::Instruction &planned = *prepared.program->instructions()->Get(index);
  return Status::error(status.code(), fmt::format("{} of layer '{}', instruction {} of program '{}': {}",
                                                  instructionName(plan(), planned),
                                                  printable(plan().root().layers()->Get(planned.layer())), index,
                                                  printable(prepared.program->name()), status.message()));
}

Status CudaExecutor::queueAll(const Prepared &prepared) {
  for (size_t i = 0; i < prepared.instructions.size(); ++i)
    TAPEOUT_RETURN_IF_ERROR(queue(prepared, i));
  return Status::ok();
}

/// While a graph is captured: notes how many nodes each instruction leaves in it.
Status CudaExecutor::queueAndCount(Prepared &prepared) {
  uint32_t before = 0;
  for (size_t i = 0; i < prepared.instructions.size(); ++i) {
    TAPEOUT_RETURN_IF_ERROR(queue(prepared, i));
    Result<uint32_t> nodes = capturedNodes();
    if (!nodes.isOk())
      return nodes.status();
    prepared.nodes.push_back(*nodes - before);
    before = *nodes;
  }
  return Status::ok();
}

Status CudaExecutor::capture(Prepared &prepared) {
  TAPEOUT_RETURN_IF_ERROR(
      driver_.check(driver_.streamBeginCapture(stream_.get(), kCuCaptureThreadLocal), "the step cannot be captured"));
  Status queued = recording_ ? queueAndCount(prepared) : queueAll(prepared);
  CuGraph captured = nullptr;
  Status ended = driver_.check(driver_.streamEndCapture(stream_.get(), &captured), "the step cannot be captured");
  Owned<CuGraph> graph;
  if (captured)
    graph = Owned(captured, driver_.graphDestroy);
  TAPEOUT_RETURN_IF_ERROR(queued);
  TAPEOUT_RETURN_IF_ERROR(ended);
  CuGraphExec executable;
  TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.graphInstantiate(&executable, graph.get(), 0), "the step cannot be captured"));
  prepared.graph = Owned(executable, driver_.graphExecDestroy);
  return Status::ok();
}

Status CudaExecutor::launchGraph(Prepared &prepared) {
  if (!prepared.graph)
    TAPEOUT_RETURN_IF_ERROR(capture(prepared));
  if (recording_) {
    replays_.push_back({recording_->runs.size(), &prepared});
    recording_->runs.push_back({prepared.program, {}});
  }
  return driver_.check(driver_.graphLaunch(prepared.graph.get(), stream_.get()), "a step cannot be queued");
}

/// Uncaptured, with a look at every instruction; returns when the run is over.
Status CudaExecutor::observe(const Prepared &prepared) {
  const size_t count = prepared.instructions.size();
  while (recording_ && traceEvents_.size() < count + 1) {
    CuEvent event;
    TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.eventCreate(&event, 0), "an event for the trace"));
    traceEvents_.emplace_back(event, driver_.eventDestroy);
  }
  auto mark = [&](size_t index) {
    return !recording_ ? Status::ok()
                       : driver_.check(driver_.eventRecord(traceEvents_[index].get(), stream_.get()), "the trace");
  };
  auto poison = [&](CuDevicePointer begin, uint64_t bytes) {
    return driver_.check(driver_.memsetD8Async(begin, MemoryCheck::kPoison, bytes, stream_.get()), "memory check");
  };
  if (prepared.check)
    TAPEOUT_RETURN_IF_ERROR(poison(arena_.get(), plan().arenaBytes() + kGuardBytes));
  TAPEOUT_RETURN_IF_ERROR(synchronize());
  if (recorder_)
    TAPEOUT_RETURN_IF_ERROR(recorder_->pause());
  auto start = std::chrono::steady_clock::now();
  TAPEOUT_RETURN_IF_ERROR(mark(0));
  for (size_t i = 0; i < count; ++i) {
    TAPEOUT_RETURN_IF_ERROR(queue(prepared, i));
    TAPEOUT_RETURN_IF_ERROR(mark(i + 1));
    if (prepared.check)
      for (uint32_t slot : prepared.check->dyingAfter(i))
        TAPEOUT_RETURN_IF_ERROR(poison(address(slot), plan().slot(slot).bytes()));
  }
  TAPEOUT_RETURN_IF_ERROR(synchronize());
  if (recorder_)
    TAPEOUT_RETURN_IF_ERROR(recorder_->resume());
  if (recording_)
    TAPEOUT_RETURN_IF_ERROR(readEvents(prepared, start));
  return prepared.check ? checkArena(*prepared.check) : Status::ok();
}

Status CudaExecutor::readEvents(const Prepared &prepared, std::chrono::steady_clock::time_point start) {
  using Clock = std::chrono::steady_clock;
  RecordedRun &run = recording_->runs.emplace_back(RecordedRun{prepared.program, {}});
  Clock::time_point end = start;
  for (uint32_t i = 0; i < prepared.instructions.size(); ++i) {
    float milliseconds = 0;
    TAPEOUT_RETURN_IF_ERROR(driver_.check(
        driver_.eventElapsedTime(&milliseconds, traceEvents_[0].get(), traceEvents_[i + 1].get()), "the trace"));
    Clock::time_point begin = end;
    end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(milliseconds));
    run.activities.push_back({prepared.program->instructions()->Get(i), "", begin, end});
  }
  return Status::ok();
}

Status CudaExecutor::checkArena(const MemoryCheck &check) {
  const uint64_t total = plan().arenaBytes() + kGuardBytes;
  std::vector<uint8_t> bytes(std::min(total, kReadBytes));
  for (uint64_t offset = 0; offset < total; offset += bytes.size()) {
    std::span<uint8_t> piece(bytes.data(), std::min<uint64_t>(bytes.size(), total - offset));
    TAPEOUT_RETURN_IF_ERROR(driver_.check(
        driver_.memcpyDtoHAsync(piece.data(), arena_.get() + offset, piece.size(), stream_.get()), "memory check"));
    TAPEOUT_RETURN_IF_ERROR(synchronize());
    TAPEOUT_RETURN_IF_ERROR(check.checkPoison(piece, offset));
  }
  return Status::ok();
}

Status CudaExecutor::run(const plan::Program &program) {
  auto found = std::find_if(programs_.begin(), programs_.end(),
                            [&](const Prepared &prepared) { return prepared.program == &program; });
  assert(found != programs_.end() && "a program of this executor's plan");
  const bool isReplayed = found->hasRun && !found->check && (!recording_ || recorder_);
  const bool observed = found->check || (recording_ && !isReplayed);
  if (observed)
    TAPEOUT_RETURN_IF_ERROR(observe(*found));
  else if (isReplayed)
    TAPEOUT_RETURN_IF_ERROR(launchGraph(*found));
  else
    TAPEOUT_RETURN_IF_ERROR(queueAll(*found)); // libraries load their kernels now, which no capture allows
  found->hasRun = true;
  for (const plan::NamedSlot *output : orEmpty(program.outputs())) {
    const plan::Slot &slot = plan().slot(output->slot());
    if (elementCount(slot) == 1)
      TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.memcpyDtoHAsync(ring_.scalar(runs_, output->slot()),
                                                                    address(output->slot()), shapeBytes(slot), stream_.get()),
                                            "reading an output"));
  }
  TAPEOUT_RETURN_IF_ERROR(ring_.close(runs_++, stream_.get()));
  return observed ? wait() : Status::ok();
}

Status CudaExecutor::wait(unsigned ago) {
  assert(ago < HostRing::kStages);
  return ago < runs_ ? ring_.wait(runs_ - 1 - ago) : Status::ok();
}

Status CudaExecutor::write(uint32_t index, FunctionRef<void(std::span<uint8_t>)> fill) {
  auto copy = [&](std::span<const uint8_t> bytes) {
    return driver_.check(driver_.memcpyHtoDAsync(address(index), bytes.data(), bytes.size(), stream_.get()),
                         fmt::format("writing '{}'", printable(plan().slot(index).name())));
  };
  if (plan().slot(index).kind() == plan::SlotKind::Input) {
    Result<std::span<uint8_t>> place = ring_.input(runs_, index);
    if (!place.isOk())
      return place.status();
    fill(*place);
    return copy(*place);
  }
  std::vector<uint8_t> bytes(plan().slot(index).bytes());
  fill(bytes);
  TAPEOUT_RETURN_IF_ERROR(copy(bytes));
  return synchronize();
}

Status CudaExecutor::clear(uint32_t slot) {
  uint64_t bytes = plan().slot(slot).bytes();
  if (bytes == 0)
    return Status::ok();
  return driver_.check(driver_.memsetD8Async(address(slot), 0, bytes, stream_.get()), "clearing memory");
}

Result<SlotBytes> CudaExecutor::read(uint32_t slot) {
  std::vector<uint8_t> bytes(shapeBytes(plan().slot(slot)));
  TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.memcpyDtoHAsync(bytes.data(), address(slot), bytes.size(), stream_.get()),
                                        fmt::format("reading '{}'", printable(plan().slot(slot).name()))));
  TAPEOUT_RETURN_IF_ERROR(synchronize());
  return SlotBytes(std::move(bytes));
}

} // namespace tapeout::rt
