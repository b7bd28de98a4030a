#include "tests/runtime/TestPlans.h"

#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Package.h"
#include "tests/runtime/PlanBuilder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tapeout::rt::test {
namespace {

using plan::ElementType;
using plan::SlotKind;

constexpr int64_t kBatch = 16, kWidth = 8, kVocabulary = 256, kContext = 8;

plan::MatmulT matmul(uint32_t a, uint32_t b, uint32_t c, int64_t m, int64_t n, int64_t k, bool transposeA) {
  plan::MatmulT result;
  result.a = a;
  result.b = b;
  result.c = c;
  result.m = m;
  result.n = n;
  result.k = k;
  result.a_row_stride = transposeA ? 1 : k;
  result.a_column_stride = transposeA ? m : 1;
  result.b_row_stride = n;
  result.b_column_stride = 1;
  result.c_row_stride = n;
  result.c_column_stride = 1;
  return result;
}

} // namespace

plan::PlanT regressionPlan() {
  PlanBuilder b;
  b.plan.layers = {"linear", "loss", "optimizer"};
  b.plan.model->name = "regression";
  b.plan.model->task = plan::Task::Regression;
  b.plan.model->batch = kBatch;
  b.plan.optimizer = "sgd";
  b.defaultValue("lr", 0.1);
  b.defaultValue("momentum", 0.5);
  b.defaultValue("schedule", 0);

  uint32_t config = b.slot("config", SlotKind::Config, ElementType::F64, {kConfigSlotLength});
  uint32_t counter = b.slot("step", SlotKind::Counter, ElementType::I64, {});
  uint32_t w = b.slot("linear.weight", SlotKind::Parameter, ElementType::F32, {kWidth, 1});
  uint32_t momentum = b.slot("sgd.momentum/linear.weight", SlotKind::OptimizerState, ElementType::F32, {kWidth, 1});
  uint32_t x = b.slot("x", SlotKind::Input, ElementType::F32, {kBatch, kWidth});
  uint32_t y = b.slot("labels", SlotKind::Input, ElementType::F32, {kBatch, 1});
  uint32_t loss = b.slot("loss", SlotKind::Output, ElementType::F32, {});
  uint32_t lossSum = b.slot("loss_sum", SlotKind::Output, ElementType::F64, {});
  uint32_t count = b.slot("count", SlotKind::Output, ElementType::I64, {});
  uint32_t prediction = b.slot("linear", SlotKind::Arena, ElementType::F32, {kBatch, 1});
  uint32_t difference = b.slot("difference", SlotKind::Arena, ElementType::F32, {kBatch, 1});
  uint32_t gradient = b.slot("gradient", SlotKind::Arena, ElementType::F32, {kWidth, 1});
  b.plan.slots[gradient]->offset = b.plan.slots[prediction]->offset; // the prediction is dead by then
  b.plan.arena_bytes -= 64;

  uint32_t differenceKernel = b.kernel("difference", kBatch, 3, 1);
  uint32_t meanSquare = b.kernel("mean_square", 1, 2, 1);
  uint32_t sgd = b.kernel("sgd", kWidth, 7, 2);
  uint32_t countStep = b.kernel("count_step", 1, 2, 1);
  uint32_t squareSum = b.kernel("square_sum", 1, 3, 2);

  plan::ProgramT &step = b.program("step");
  b.name(step.inputs, "x", x);
  b.name(step.inputs, "labels", y);
  b.name(step.outputs, "loss", loss);
  b.add(step, matmul(x, w, prediction, kBatch, 1, kWidth, false), 0, 0);
  b.launch(step, differenceKernel, {prediction, y, difference}, 1, 1);
  b.launch(step, meanSquare, {difference, loss}, 1, 1);
  b.add(step, matmul(x, difference, gradient, kWidth, 1, kBatch, true), 0, 2);
  b.launch(step, sgd, {gradient, config, counter, w, momentum, w, momentum}, 2, 3);
  b.launch(step, countStep, {counter, counter}, 2, 3);

  plan::ProgramT &evaluate = b.program("evaluate");
  b.name(evaluate.inputs, "x", x);
  b.name(evaluate.inputs, "labels", y);
  b.name(evaluate.outputs, "loss_sum", lossSum);
  b.name(evaluate.outputs, "count", count);
  b.add(evaluate, matmul(x, w, prediction, kBatch, 1, kWidth, false), 0, 0);
  b.launch(evaluate, differenceKernel, {prediction, y, difference}, 1, 1);
  b.launch(evaluate, squareSum, {difference, lossSum, count}, 1, 1);
  return std::move(b.plan);
}

plan::PlanT bigramPlan() {
  PlanBuilder b;
  b.plan.layers = {"bigram"};
  b.plan.model->name = "bigram";
  b.plan.model->task = plan::Task::LanguageModel;
  b.plan.model->batch = 1;
  b.plan.model->context = kContext;
  b.plan.model->vocabulary = kVocabulary;
  b.slot("config", SlotKind::Config, ElementType::F64, {kConfigSlotLength});
  uint32_t table = b.slot("table", SlotKind::Parameter, ElementType::F32, {kVocabulary, kVocabulary});
  uint32_t tokens = b.slot("tokens", SlotKind::Input, ElementType::I32, {1, kContext});
  uint32_t position = b.slot("position", SlotKind::Input, ElementType::I64, {});
  uint32_t logits = b.slot("logits", SlotKind::Output, ElementType::F32, {1, kVocabulary});
  uint32_t bigram = b.kernel("bigram", kVocabulary, 4, 1);
  plan::ProgramT &predict = b.program("predict");
  b.name(predict.inputs, "tokens", tokens);
  b.name(predict.inputs, "position", position);
  b.name(predict.outputs, "logits", logits);
  b.launch(predict, bigram, {tokens, position, table, logits}, 0, 0);
  return std::move(b.plan);
}

std::vector<uint8_t> emptyCubin(uint8_t architecture) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190; // EM_CUDA
  header.e_shentsize = sizeof(Elf64_Shdr);
  const auto *bytes = reinterpret_cast<const uint8_t *>(&header);
  std::vector<uint8_t> cubin(bytes, bytes + sizeof header);
  cubin.push_back(architecture);
  return cubin;
}

plan::PlanT cudaRegressionPlan() {
  plan::PlanT plan = regressionPlan();
  plan.target = "cuda";
  plan.workspace_bytes = 4096;
  plan.modules.push_back(std::make_unique<plan::KernelModuleT>());
  for (uint8_t architecture : {90, 80, 86}) {
    auto cubin = std::make_unique<plan::CubinT>();
    cubin->architecture = architecture;
    cubin->bytes = emptyCubin(architecture);
    plan.modules[0]->cubins.push_back(std::move(cubin));
  }
  plan.modules[0]->ptx = ".version 8.3";
  for (auto &kernel : plan.kernels) {
    kernel->gpu = std::make_unique<plan::GpuKernelT>();
    kernel->gpu->blocks = static_cast<uint32_t>(kernel->units);
    kernel->gpu->threads = 1;
  }
  return plan;
}

std::vector<uint8_t> serialize(const plan::PlanT &plan) {
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

std::vector<uint8_t> kernelBytes() {
  std::string text = readText(TAPEOUT_TEST_KERNELS);
  return {text.begin(), text.end()};
}

uint32_t slotIndex(const plan::PlanT &plan, const std::string &name) {
  for (uint32_t i = 0; i < plan.slots.size(); ++i)
    if (plan.slots[i]->name == name)
      return i;
  ADD_FAILURE() << "no slot " << name;
  return 0;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tapeout-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

void writeFile(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeNpy(const std::string &path, const std::vector<int64_t> &shape, const std::vector<float> &values) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  uint16_t length = header.size();
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.append(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  writeFile(path, bytes);
}

void writeRegressionData(const TemporaryFolder &folder, int64_t samples) {
  std::vector<float> x, y;
  uint32_t state = 1;
  for (int64_t i = 0; i < samples; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < kWidth; ++j) {
      state = state * 1664525u + 1013904223u;
      x.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1);
      sum += x.back() * static_cast<float>(j + 1);
    }
    y.push_back(sum);
  }
  writeNpy(folder.file("x.npy"), {samples, kWidth}, x);
  writeNpy(folder.file("y.npy"), {samples, 1}, y);
}

std::string writeTestPackage(const TemporaryFolder &folder, const plan::PlanT &plan) {
  std::vector<uint8_t> planBytes = serialize(plan), kernels = kernelBytes();
  std::string path = folder.file("model");
  Status status = writePackage(
      "", {{SectionKind::Plan, "cpu", planBytes, ""}, {SectionKind::CpuKernels, "cpu", kernels, ""}}, path);
  EXPECT_TRUE(status.isOk()) << status.message();
  return path;
}

} // namespace tapeout::rt::test
