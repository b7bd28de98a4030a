#include "runtime/Bench.h"

#include "runtime/State.h"
#include "runtime/Trainer.h"
#include "runtime/base/Philox.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

namespace tapeout::rt {
namespace {

constexpr uint64_t kMaxSteps = 1'000'000; // of one request
constexpr uint64_t kLineBytes = 64;       // of the cache

nlohmann::json describe(const Executor &executor, const plan::Program &step) {
  const ProgramTotals totals = totalsOf(step);
  const Plan &plan = executor.plan();
  return {{"model", printable(plan.model().name())},
          {"options", printable(plan.root().options())},
          {"plan_hash", plan.hash()},
          {"batch", plan.model().batch()},
          {"threads", executor.pool().threads()},
          {"isa", executor.architecture()},
          {"launches", totals.launches},
          {"matrix_products", totals.products},
          {"attentions", totals.attentions},
          {"windows", totals.windows},
          {"copies", totals.copies},
          {"flops", totals.flops},
          {"bytes_moved", totals.bytesMoved},
          {"arena_planned", plan.arenaBytes()},
          {"persistent_planned", plan.persistentBytes()},
          {"memory_planned", executor.memoryBytes()}};
}

/// Integers are token ids or labels: below the vocabulary. Other numbers are uniform in [0, 1).
Status fillWithRandomNumbers(Executor &executor, const plan::Program &step) {
  const auto choices = static_cast<double>(std::max<int64_t>(1, executor.plan().model().vocabulary()));
  uint64_t stream = 0;
  for (const plan::NamedSlot *input : orEmpty(step.inputs())) {
    const plan::Slot &slot = executor.plan().slot(input->slot());
    uint64_t count = elementCount(slot);
    RandomStream random{.seed = 1, .stream = stream++};
    ElementType type = elementType(slot);
    TAPEOUT_RETURN_IF_ERROR(executor.write(input->slot(), [&](std::span<uint8_t> bytes) {
      if (random.fillUniform(type, bytes.data(), 0, count, 0, 1))
        return;
      for (uint64_t i = 0; i < count; ++i) {
        auto value = static_cast<int64_t>(random.uniform(i) * choices);
        std::memcpy(bytes.data() + i * elementSize(type), &value, elementSize(type)); // little endian
      }
    }));
  }
  return Status::ok();
}

double processorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The largest resident memory of the process so far; getrusage would count the process that started it, too.
uint64_t peakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key, rest; status >> key && std::getline(status, rest);)
    if (key == "VmHWM:")
      return std::strtoull(rest.c_str(), nullptr, 10) * 1024;
  return 0;
}

/// The next request; 0 at the end of the input.
Result<uint64_t> readRequest(std::FILE *in) {
  char line[32];
  if (!std::fgets(line, sizeof line, in))
    return uint64_t(0);
  char *end = nullptr;
  uint64_t steps = std::strtoull(line, &end, 10);
  if (end == line || *end != '\n' || steps == 0 || steps > kMaxSteps)
    return Status::error(ExitCode::Usage, fmt::format("--bench reads a number of steps from 1 to {} per line; `tapeout "
                                                      "bench` is meant to write them", kMaxSteps));
  return steps;
}

Status writeLine(std::FILE *out, const nlohmann::json &line) {
  // Names may be no UTF-8.
  std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  return written ? Status::ok() : Status::error(ExitCode::WriteFailed, "cannot write to the standard output");
}

} // namespace

Status serveBench(Executor &executor, DataLoader *data, const Result<MissCounter> &counter, std::FILE *in, std::FILE *out) {
  const plan::Program *step = executor.plan().program("step");
  if (!step)
    return Status::error(ExitCode::BadData, "this executable holds no training step; compile the model with a loss");
  nlohmann::json hello = describe(executor, *step);
  if (!counter.isOk())
    hello["no_counter"] = counter.status().message();
  if (!data)
    TAPEOUT_RETURN_IF_ERROR(fillWithRandomNumbers(executor, *step));
  TAPEOUT_RETURN_IF_ERROR(writeLine(out, hello));
  while (true) {
    Result<uint64_t> steps = readRequest(in);
    if (!steps.isOk() || *steps == 0)
      return steps.status();
    std::vector<double> seconds, processor;
    uint64_t missesBefore = counter.isOk() ? counter->misses() : 0;
    for (uint64_t i = 0; i < *steps; ++i) {
      auto start = std::chrono::steady_clock::now();
      double processorStart = processorSeconds();
      if (data) {
        Result<const Batch *> batch = data->next();
        if (!batch.isOk())
          return batch.status();
        TAPEOUT_RETURN_IF_ERROR(fillInputs(executor, *step, **batch));
      }
      TAPEOUT_RETURN_IF_ERROR(executor.run(*step));
      TAPEOUT_RETURN_IF_ERROR(executor.wait());
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      processor.push_back(processorSeconds() - processorStart);
    }
    nlohmann::json reply = {{"seconds", seconds},
                            {"processor_seconds", processor},
                            {"loss", readOutput(executor, *step, "loss").value_or(0)},
                            {"arena_resident", executor.arenaResidentBytes()},
                            {"process_peak", peakBytes()}};
    if (counter.isOk())
      reply["bytes_missed"] = (counter->misses() - missesBefore) * kLineBytes;
    TAPEOUT_RETURN_IF_ERROR(writeLine(out, reply));
  }
}

} // namespace tapeout::rt
