#include "tools/bench/Bench.h"

#include "tools/bench/Child.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace tapeout::bench {
namespace {

constexpr uint64_t kWarmUpSteps = 3;
constexpr uint64_t kBlockSteps = 5;
constexpr uint64_t kDiscarded = 1; // of each block: it finds the caches full of the others' data

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

uint64_t count(const nlohmann::json &object, const char *key) {
  auto value = object.find(key);
  return value != object.end() && value->is_number_unsigned() ? value->get<uint64_t>() : 0;
}

double number(const nlohmann::json &object, const char *key) {
  auto value = object.find(key);
  return value != object.end() && value->is_number() ? value->get<double>() : std::nan("");
}

std::string text(const nlohmann::json &object, const char *key) {
  auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

Measured describe(const Subject &subject, const nlohmann::json &description) {
  Measured result;
  result.label = subject.label;
  result.model = text(description, "model");
  result.isa = text(description, "isa");
  result.batch = static_cast<int64_t>(count(description, "batch"));
  result.threads = static_cast<int>(count(description, "threads"));
  result.launches = count(description, "launches");
  result.matrixProducts = count(description, "matrix_products");
  result.attentions = count(description, "attentions");
  result.windows = count(description, "windows");
  result.copies = count(description, "copies");
  result.flops = count(description, "flops");
  result.bytesMoved = count(description, "bytes_moved");
  result.arenaPlanned = count(description, "arena_planned");
  return result;
}

/// One executable and what it has measured so far.
struct Runner {
  Child child;
  std::vector<double> seconds = {}, processorSeconds = {}; ///< of all steps
  std::vector<double> medians = {};                        ///< of each block
  double bytesMissed = 0;
  uint64_t countedSteps = 0;

  Status runBlock(Measured &measured) {
    Result<nlohmann::json> reply = child.train(kBlockSteps + kDiscarded);
    if (!reply.isOk())
      return reply.status();
    auto block = (*reply)["seconds"].get<std::vector<double>>();
    block.erase(block.begin(), block.begin() + kDiscarded);
    seconds.insert(seconds.end(), block.begin(), block.end());
    auto processor = (*reply)["processor_seconds"].get<std::vector<double>>();
    processorSeconds.insert(processorSeconds.end(), processor.begin() + kDiscarded, processor.end());
    medians.push_back(statisticsOf(block).median);
    measured.arenaResident = count(*reply, "arena_resident");
    measured.processPeak = count(*reply, "process_peak");
    measured.loss = number(*reply, "loss");
    if (reply->contains("bytes_missed")) {
      countedSteps += kBlockSteps + kDiscarded;
      bytesMissed += static_cast<double>(count(*reply, "bytes_missed"));
      measured.bytesMissed = bytesMissed / static_cast<double>(countedSteps);
    }
    return Status::ok();
  }
};

/// `steps`: of the whole run, for the schedule of the learning rate.
std::vector<std::string> childOptions(const MeasureOptions &options, uint64_t steps) {
  std::vector<std::string> words = {"--steps", std::to_string(steps)};
  auto add = [&](const char *option, const std::string &value) {
    if (!value.empty())
      words.insert(words.end(), {option, value});
  };
  add("--data", options.data);
  add("--labels", options.labels);
  add("--threads", options.threads > 0 ? std::to_string(options.threads) : "");
  return words;
}

} // namespace

Statistics statisticsOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto percentile = [&](double share) {
    double position = share * static_cast<double>(values.size() - 1);
    auto below = static_cast<size_t>(position);
    size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {percentile(0.5), values.front(), percentile(0.1), percentile(0.9)};
}

Result<Report> measure(const std::vector<Subject> &subjects, const MeasureOptions &options, const Roofs &roofs) {
  uint64_t blocks = std::max<uint64_t>(1, (options.steps + kBlockSteps - 1) / kBlockSteps);
  Report report;
  report.steps = blocks * kBlockSteps;
  report.blockSteps = kBlockSteps;
  report.processor = processorName();
  report.roofs = roofs;
  std::vector<Runner> runners;
  for (const Subject &subject : subjects) {
    Result<Child> child = Child::start(subject.path, childOptions(options, kWarmUpSteps + blocks * (kBlockSteps + kDiscarded)));
    if (!child.isOk())
      return child.status();
    runners.push_back({std::move(*child)});
    report.measured.push_back(describe(subject, runners.back().child.description()));
    report.noCounter = text(runners.back().child.description(), "no_counter");
  }
  for (Runner &runner : runners)
    if (Result<nlohmann::json> reply = runner.child.train(kWarmUpSteps); !reply.isOk())
      return reply.status();
  for (uint64_t block = 0; block < blocks; ++block)
    for (size_t i = 0; i < runners.size(); ++i)
      TAPEOUT_RETURN_IF_ERROR(runners[i].runBlock(report.measured[i]));

  for (size_t i = 0; i < runners.size(); ++i) {
    Measured &measured = report.measured[i];
    measured.seconds = statisticsOf(runners[i].seconds);
    measured.processorSeconds = statisticsOf(runners[i].processorSeconds);
    auto shareOf = [&](uint64_t work, double roof) { return static_cast<double>(work) / measured.seconds.median / roof; };
    measured.memoryRoofShare = shareOf(measured.bytesMoved, report.roofs.bytesPerSecond);
    measured.arithmeticRoofShare = shareOf(measured.flops, report.roofs.flopsPerSecond);
  }
  if (runners.size() == 2) {
    std::vector<double> ratios;
    for (uint64_t block = 0; block < blocks; ++block)
      ratios.push_back(runners[0].medians[block] / runners[1].medians[block]);
    report.ratio = statisticsOf(std::move(ratios));
  }
  return report;
}

} // namespace tapeout::bench
