#include "runtime/io/Metrics.h"

#include "runtime/io/Crc32c.h"
#include "runtime/io/Progress.h"
#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <map>
#include <sys/resource.h>

namespace fs = std::filesystem;

namespace tapeout::rt {
namespace {

using namespace test;

StepMetrics metricsOf(uint64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.totalSteps = 500;
  metrics.loss = 2.5 / static_cast<double>(step);
  metrics.gradNorm = 0.5;
  metrics.lr = 3e-4;
  metrics.throughput = 45210;
  metrics.dataWaitShare = 0.031;
  metrics.memoryBytes = uint64_t{5} << 28;
  return metrics;
}

std::unique_ptr<MetricsWriter> open(const std::string &directory, uint64_t resumedStep = 0, std::FILE *out = nullptr,
                                    bool terminal = false) {
  auto writer = MetricsWriter::create({directory, terminal, out, resumedStep});
  EXPECT_TRUE(writer.isOk()) << writer.status().message();
  return std::move(*writer);
}

std::vector<nlohmann::json> linesOf(const std::string &path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// --- A decoder of event files, written from the format alone
// -------------------------------------------------------------

/// The fields of one message: number and payload (varints as text).
struct Field {
  int number;
  int wireType;
  std::string payload;
};

uint64_t takeVarint(std::string_view &text) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    auto byte = static_cast<uint8_t>(text.at(0));
    text.remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128)
      return value;
  }
}

std::vector<Field> decode(std::string_view text) {
  std::vector<Field> fields;
  while (!text.empty()) {
    uint64_t key = takeVarint(text);
    Field field{static_cast<int>(key >> 3), static_cast<int>(key & 7), ""};
    if (field.wireType == 0) {
      field.payload = std::to_string(takeVarint(text));
    } else {
      size_t size = field.wireType == 1 ? 8 : field.wireType == 5 ? 4 : takeVarint(text);
      field.payload = text.substr(0, size);
      EXPECT_EQ(field.payload.size(), size);
      text.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

template <typename T> T rawValue(std::string_view bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(T)));
  return value;
}

struct Event {
  double wallTime = 0;
  uint64_t step = 0;
  std::string fileVersion;
  bool started = false;
  std::map<std::string, float> scalars;
};

Event decodeEvent(std::string_view record) {
  Event event;
  for (const Field &field : decode(record)) {
    if (field.number == 1)
      event.wallTime = rawValue<double>(field.payload);
    else if (field.number == 2)
      event.step = std::stoull(field.payload);
    else if (field.number == 3)
      event.fileVersion = field.payload;
    else if (field.number == 7)
      event.started = decode(field.payload).at(0).payload == "1";
    else if (field.number == 5)
      for (const Field &value : decode(field.payload)) {
        std::vector<Field> parts = decode(value.payload);
        EXPECT_EQ(parts.at(0).number, 1);
        EXPECT_EQ(parts.at(1).number, 2);
        event.scalars[parts.at(0).payload] = rawValue<float>(parts.at(1).payload);
      }
    else
      ADD_FAILURE() << "unknown field " << field.number;
  }
  return event;
}

std::vector<Event> readEvents(const std::string &path) {
  std::string file = readAll(path);
  std::string_view text = file;
  std::vector<Event> events;
  while (!text.empty()) {
    auto length = rawValue<uint64_t>(text.substr(0, 8));
    EXPECT_EQ(rawValue<uint32_t>(text.substr(8, 4)), maskedCrc(crc32c(text.substr(0, 8))));
    std::string_view record = text.substr(12, length);
    EXPECT_EQ(rawValue<uint32_t>(text.substr(12 + length, 4)), maskedCrc(crc32c(record)));
    events.push_back(decodeEvent(record));
    text.remove_prefix(16 + length);
  }
  return events;
}

std::vector<std::string> eventFiles(const std::string &directory) {
  std::vector<std::string> paths;
  for (const auto &entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(Crc32c, GivesTheKnownAnswers) {
  // RFC 3720, B.4; "123456789" is the usual check value.
  std::string ascending(32, '\0'), descending(32, '\0');
  for (int i = 0; i < 32; ++i) {
    ascending[static_cast<size_t>(i)] = static_cast<char>(i);
    descending[static_cast<size_t>(i)] = static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(Metrics, WritesOneJsonObjectPerStep) {
  TemporaryFolder folder;
  std::string path = folder / "logs/run/metrics.jsonl";
  auto writer = open(folder / "logs/run");
  ASSERT_TRUE(writer->record(metricsOf(1)).isOk());
  EXPECT_EQ(linesOf(path).size(), 1u) << "a line must be there at once";
  StepMetrics second = metricsOf(2);
  second.unit = "samples";
  second.evalLoss = 1.75;
  second.gradNorm = NAN;
  ASSERT_TRUE(writer->record(second).isOk());
  auto lines = linesOf(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], nlohmann::json({{"step", 1},
                                      {"loss", 2.5},
                                      {"grad_norm", 0.5},
                                      {"lr", 3e-4},
                                      {"tokens_per_s", 45210.0},
                                      {"data_wait", 0.031}}));
  EXPECT_EQ(lines[1], nlohmann::json({{"step", 2},
                                      {"loss", 1.25},
                                      {"grad_norm", nullptr},
                                      {"lr", 3e-4},
                                      {"samples_per_s", 45210.0},
                                      {"data_wait", 0.031},
                                      {"eval_loss", 1.75}}));
}

TEST(Metrics, LossesKeepAllTheirBits) {
  TemporaryFolder folder;
  StepMetrics metrics = metricsOf(1);
  metrics.loss = 1.0f / 3;
  ASSERT_TRUE(open(folder.path())->record(metrics).isOk());
  EXPECT_EQ(linesOf(folder / "metrics.jsonl")[0]["loss"].get<double>(), metrics.loss);
}

TEST(Metrics, ResumingDropsTheLaterSteps) {
  TemporaryFolder folder;
  std::string path = folder / "metrics.jsonl";
  auto resumeAt = [&](uint64_t step, std::vector<uint64_t> expected) {
    writeFile(path, "");
    {
      auto writer = open(folder.path());
      for (uint64_t i = 1; i <= 12; ++i)
        ASSERT_TRUE(writer->record(metricsOf(i)).isOk());
    }
    std::ofstream(path, std::ios::app) << R"({"step": 3, "lo)";
    auto writer = open(folder.path(), step);
    ASSERT_TRUE(writer->record(metricsOf(step + 1)).isOk());
    std::vector<uint64_t> steps;
    for (const auto &line : linesOf(path))
      steps.push_back(line["step"]);
    EXPECT_EQ(steps, expected);
  };
  resumeAt(10, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  resumeAt(12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  resumeAt(1, {1, 2});
  resumeAt(0, {1});
}

TEST(Metrics, ResumesWithoutOrWithABrokenFile) {
  TemporaryFolder folder;
  for (const char *content : {"", "\n", "\n\n\n", "no json\n", "[1]\n{\"step\": -1}\n{\"step\": \"x\"}\n{}\n"}) {
    writeFile(folder / "metrics.jsonl", content);
    ASSERT_TRUE(open(folder.path(), 5)->record(metricsOf(6)).isOk());
    EXPECT_EQ(linesOf(folder / "metrics.jsonl").size(), 1u) << content;
  }
  fs::remove(folder / "metrics.jsonl");
  ASSERT_TRUE(open(folder.path(), 5)->record(metricsOf(6)).isOk());
  EXPECT_EQ(linesOf(folder / "metrics.jsonl").size(), 1u);
}

TEST(Metrics, WritesScalarsForTensorBoard) {
  TemporaryFolder folder;
  auto writer = open(folder.path());
  StepMetrics metrics = metricsOf(1);
  ASSERT_TRUE(writer->record(metrics).isOk());
  metrics = metricsOf(300);
  metrics.evalLoss = 1.5;
  ASSERT_TRUE(writer->record(metrics).isOk());

  ASSERT_EQ(eventFiles(folder.path()).size(), 1u);
  std::vector<Event> events = readEvents(eventFiles(folder.path())[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].fileVersion, "brain.Event:2");
  EXPECT_TRUE(events[1].started);
  EXPECT_EQ(events[1].step, 1u);
  EXPECT_EQ(events[2].step, 1u);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"train/loss", 2.5f}, {"train/grad_norm", 0.5f}, {"train/lr", 3e-4f}}));
  EXPECT_EQ(events[3].step, 300u);
  EXPECT_EQ(events[3].scalars.at("eval/loss"), 1.5f);
  EXPECT_GT(events[3].wallTime, 1.6e9);
}

TEST(Metrics, EventFilesBeginAsTensorFlowsDo) {
  TemporaryFolder folder;
  open(folder.path());
  std::string file = readAll(eventFiles(folder.path())[0]);
  EXPECT_EQ(file.substr(0, 13), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09", 13));
}

TEST(Metrics, AResumedRunTellsTensorBoardWhereItStarts) {
  TemporaryFolder folder;
  open(folder.path());
  open(folder.path(), 200);
  ASSERT_EQ(eventFiles(folder.path()).size(), 2u);
  Event session = readEvents(eventFiles(folder.path())[1])[1];
  EXPECT_TRUE(session.started);
  EXPECT_EQ(session.step, 201u);
}

TEST(Metrics, RefusesWhatCannotBeWritten) {
  TemporaryFolder folder;
  writeFile(folder / "file", "x");
  expectError(MetricsWriter::create({folder / "file/logs", false, nullptr, 0}).status(), ExitCode::CannotCreate,
              {"file/logs"});
  fs::create_directories(folder / "logs/metrics.jsonl");
  expectError(MetricsWriter::create({folder / "logs", false, nullptr, 0}).status(), ExitCode::CannotCreate,
              {"metrics.jsonl"});
}

TEST(Metrics, AFullDiskLeavesWholeLines) {
  TemporaryFolder folder;
  auto writer = open(folder.path());
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = {1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status status = Status::ok();
  for (uint64_t i = 1; i <= 100 && status.isOk(); ++i)
    status = writer->record(metricsOf(i));
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, oldHandler);
  expectError(status, ExitCode::WriteFailed, {folder.path()});
  EXPECT_GT(linesOf(folder / "metrics.jsonl").size(), 3u);
  EXPECT_GT(readEvents(eventFiles(folder.path())[0]).size(), 3u);
}

// --- Progress
// ------------------------------------------------------------------------------------------------------------

std::string progressOf(bool terminal, const std::vector<StepMetrics> &steps) {
  char *text = nullptr;
  size_t size = 0;
  std::FILE *out = open_memstream(&text, &size);
  {
    auto writer = open("", 0, out, terminal);
    for (const StepMetrics &metrics : steps)
      EXPECT_TRUE(writer->record(metrics).isOk());
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Progress, SaysWhatMatters) {
  StepMetrics metrics = metricsOf(20);
  EXPECT_EQ(progressText(metrics, 42.4), "step 20/500  loss 0.1250  ETA 0:42  45.2k tokens/s  grad 0.5  lr 3.00e-04  "
                                         "data wait 3%  memory 1.2 GiB");
  metrics.evalLoss = 1.25;
  metrics.unit = "samples";
  metrics.throughput = 12.34;
  metrics.memoryBytes = 2048;
  EXPECT_EQ(progressText(metrics, 7325), "step 20/500  loss 0.1250  eval loss 1.2500  ETA 2:02:05  12.3 samples/s  "
                                         "grad 0.5  lr 3.00e-04  data wait 3%  memory 2.0 KiB");
  EXPECT_EQ(progressText(metrics, std::nullopt).find("ETA"), std::string::npos);
}

TEST(Progress, PlainLinesComeAtGrowingIntervals) {
  std::vector<StepMetrics> steps;
  for (uint64_t i = 1; i <= 500; ++i)
    steps.push_back(metricsOf(i));
  steps[344].evalLoss = 1;
  std::istringstream text(progressOf(false, steps));
  std::vector<int> shown;
  for (std::string line; std::getline(text, line);)
    shown.push_back(std::stoi(line.substr(5)));
  EXPECT_EQ(shown, (std::vector<int>{1,  2,  3,  4,  5,  6,  7,   8,   9,   10,  20,  30,
                                     40, 50, 60, 70, 80, 90, 100, 200, 300, 345, 400, 500}));
}

TEST(Progress, TheFirstStepOfAResumedRunIsShown) {
  EXPECT_EQ(progressOf(false, {metricsOf(234), metricsOf(235)}).substr(0, 13), "step 234/500 ");
}

TEST(Progress, ATerminalHasOneLineThatIsRewrittenNowAndThen) {
  std::vector<StepMetrics> steps;
  for (uint64_t i = 1; i <= 500; ++i)
    steps.push_back(metricsOf(i));
  steps[344].evalLoss = 1;
  std::string text = progressOf(true, steps); // all within a fraction of a second
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << "after the evaluation and after the last step";
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 3);
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 12);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, AnUnfinishedLineIsEnded) { EXPECT_EQ(progressOf(true, {metricsOf(1)}).back(), '\n'); }

TEST(Progress, NotesHaveLinesOfTheirOwn) {
  char *text = nullptr;
  size_t size = 0;
  std::FILE *out = open_memstream(&text, &size);
  {
    auto writer = open("", 0, out, /*terminal=*/true);
    EXPECT_TRUE(writer->record(metricsOf(1)).isOk());
    writer->note("one\ntwo");
  }
  std::fclose(out);
  EXPECT_TRUE(std::string_view(text, size).ends_with("\none\ntwo\n")) << text;
  std::free(text);
}

TEST(Progress, OtherRanksSayNothing) {
  auto writer = open("");
  EXPECT_TRUE(writer->record(metricsOf(1)).isOk());
  writer->note("nothing");
}

} // namespace
} // namespace tapeout::rt
