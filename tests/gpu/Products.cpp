#include "runtime/base/BFloat16.h"
#include "runtime/base/Hyperparameters.h"
#include "runtime/base/Philox.h"
#include "tests/gpu/GpuTest.h"
#include "tests/runtime/PlanBuilder.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace tapeout::rt::test {
namespace {

using Type = tapeout::ElementType;
using plan::SlotKind;

/// One product; strides are filled in by the makers below.
struct Product {
  std::string name = {};
  Type type, resultType;
  plan::MatmulT matmul = {};
  int64_t aElements = 0, bElements = 0, cElements = 0;
};

void setStrides(Product &product, bool transposeA, bool transposeB, bool transposeC) {
  plan::MatmulT &p = product.matmul;
  p.a_row_stride = transposeA ? 1 : p.k, p.a_column_stride = transposeA ? p.m : 1;
  p.b_row_stride = transposeB ? 1 : p.n, p.b_column_stride = transposeB ? p.k : 1;
  p.c_row_stride = transposeC ? 1 : p.n, p.c_column_stride = transposeC ? p.m : 1;
  product.aElements = p.m * p.k, product.bElements = p.k * p.n, product.cElements = p.m * p.n;
}

Product matrix(Type type, Type resultType, int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB, bool transposeC) {
  Product product{.type = type, .resultType = resultType};
  product.matmul.m = m, product.matmul.n = n, product.matmul.k = k;
  setStrides(product, transposeA, transposeB, transposeC);
  product.name = fmt::format("{} -> {} {}{}{} {}x{}x{}", name(type), name(resultType), transposeA ? 'T' : 'N',
                             transposeB ? 'T' : 'N', transposeC ? 'T' : 'N', m, n, k);
  return product;
}

/// Scores of attention from slices of one packed tensor [batch, sequence, 3, heads, width].
Product scores(Type type) {
  const int64_t batch = 4, heads = 3, sequence = 96, width = 64, row = 3 * heads * width;
  Product product = matrix(type, type, sequence, sequence, width, false, true, false);
  plan::MatmulT &p = product.matmul;
  p.a_row_stride = p.b_column_stride = row;
  p.batch = {plan::BatchDimension(batch, sequence * row, sequence * row, heads * sequence * sequence),
             plan::BatchDimension(heads, width, width, sequence * sequence)};
  p.b_offset = heads * width;
  product.aElements = product.bElements = batch * sequence * row;
  product.cElements = batch * heads * sequence * sequence;
  product.name = fmt::format("{} attention scores, 2 batch dimensions", name(type));
  return product;
}

std::vector<Product> smallProducts() {
  std::vector<Product> products;
  for (auto [type, result] : {std::pair(Type::F32, Type::F32), {Type::BF16, Type::BF16}, {Type::BF16, Type::F32},
                              {Type::F16, Type::F16}, {Type::F16, Type::F32}})
    for (auto [a, b, c] : {std::tuple(false, false, false), {true, false, false}, {false, true, false}, {true, true, true}})
      products.push_back(matrix(type, result, 192, 160, 320, a, b, c));
  for (Type type : {Type::F32, Type::BF16}) {
    Product accumulate = matrix(type, Type::F32, 192, 160, 320, true, false, false);
    accumulate.matmul.accumulate = true;
    accumulate.name += " accumulate";
    products.push_back(accumulate);
    products.push_back(scores(type));
    Product odd = matrix(type, type, 33, 17, 45, false, false, false); // nothing is a multiple of 16 bytes
    odd.matmul.a_offset = 1, ++odd.aElements;
    odd.name += " unaligned";
    products.push_back(odd);
    products.push_back(matrix(type, type, 1, 160, 320, false, false, false));
    products.push_back(matrix(type, type, 192, 1, 320, false, true, false));
  }
  Product batched = matrix(Type::BF16, Type::BF16, 64, 48, 80, false, false, false);
  batched.matmul.batch = {plan::BatchDimension(6, 64 * 80, 0, 64 * 48)}; // one b for all
  batched.aElements *= 6, batched.cElements *= 6;
  batched.name += " batch 6, b shared";
  products.push_back(batched);
  return products;
}

/// GPT-2 at 8 x 1024 tokens: forward, gradient of the input, gradient of the weight; and a square one.
std::vector<Product> largeProducts() {
  const int64_t tokens = 8192;
  return {matrix(Type::BF16, Type::BF16, tokens, 3072, 768, false, true, false),
          matrix(Type::BF16, Type::BF16, tokens, 768, 3072, false, false, false),
          matrix(Type::BF16, Type::F32, 3072, 768, tokens, true, false, false),
          matrix(Type::BF16, Type::BF16, 8192, 8192, 8192, false, true, false),
          matrix(Type::F32, Type::F32, 4096, 4096, 4096, false, false, false)};
}

plan::PlanT planOf(const std::vector<Product> &products) {
  PlanBuilder b;
  b.plan.target = "cuda";
  b.plan.layers = {"product"};
  b.plan.model->name = "products";
  b.plan.model->task = plan::Task::Regression;
  b.plan.model->batch = 1;
  b.plan.workspace_bytes = 64 << 20;
  b.slot("config", SlotKind::Config, plan::ElementType::F64, {kConfigSlotLength});
  plan::ProgramT &program = b.program("products");
  for (size_t i = 0; i < products.size(); ++i) {
    const Product &product = products[i];
    auto type = static_cast<plan::ElementType>(product.type), result = static_cast<plan::ElementType>(product.resultType);
    plan::MatmulT matmul = product.matmul;
    matmul.a = b.slot(fmt::format("a{}", i), SlotKind::Input, type, {product.aElements});
    matmul.b = b.slot(fmt::format("b{}", i), SlotKind::Input, type, {product.bElements});
    matmul.c = b.slot(fmt::format("c{}", i), SlotKind::OptimizerState, result, {product.cElements});
    b.add(program, std::move(matmul), 0, 0);
  }
  return std::move(b.plan);
}

Status fillWithRandomNumbers(GpuMachine &machine) {
  for (uint32_t i = 1; i < machine.plan.slotCount(); ++i) { // after the config
    const plan::Slot &slot = machine.plan.slot(i);
    const Type type = elementType(slot);
    auto count = static_cast<int64_t>(elementCount(slot));
    TAPEOUT_RETURN_IF_ERROR(machine.executor->write(i, [&](std::span<uint8_t> bytes) {
      machine.executor->pool().parallelFor(count, 1 << 16, [&](int64_t begin, int64_t end) {
        (void)RandomStream{.seed = 3, .stream = i}.fillUniform(type, bytes.data() + begin * elementSize(type), begin, end - begin,
                                                               -1, 1);
      });
    }));
  }
  return Status::ok();
}

double load(Type type, const std::vector<uint8_t> &bytes, int64_t index) {
  if (type == Type::F32) {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return type == Type::BF16 ? bfloat16ToFloat(bits) : halfToFloat(bits);
}

/// Largest error of up to 500 results per matrix, relative to sqrt(k); `before` is c before the run.
double largestError(const Product &product, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b,
                    const std::vector<uint8_t> &before, const std::vector<uint8_t> &c) {
  const plan::MatmulT &p = product.matmul;
  int64_t matrices = 1;
  for (const plan::BatchDimension &dimension : p.batch)
    matrices *= dimension.extent();
  const int64_t stride = std::max<int64_t>(1, p.m * p.n / 500 / 2 * 2 + 1);
  double error = 0;
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    int64_t aAt = p.a_offset, bAt = p.b_offset, cAt = p.c_offset, rest = matrix;
    for (size_t d = p.batch.size(); d-- > 0; rest /= p.batch[d].extent()) {
      int64_t index = rest % p.batch[d].extent();
      aAt += index * p.batch[d].a_stride(), bAt += index * p.batch[d].b_stride(), cAt += index * p.batch[d].c_stride();
    }
    for (int64_t element = 0; element < p.m * p.n; element += stride) {
      int64_t i = element / p.n, j = element % p.n, at = cAt + i * p.c_row_stride + j * p.c_column_stride;
      double sum = p.accumulate ? load(product.resultType, before, at) : 0;
      for (int64_t q = 0; q < p.k; ++q)
        sum += load(product.type, a, aAt + i * p.a_row_stride + q * p.a_column_stride) *
               load(product.type, b, bAt + q * p.b_row_stride + j * p.b_column_stride);
      error = std::max(error, std::abs(sum - load(product.resultType, c, at)));
    }
  }
  return error / std::sqrt(static_cast<double>(p.k));
}

double tolerance(Type resultType) { return resultType == Type::F32 ? 5e-6 : resultType == Type::BF16 ? 1e-2 : 1.5e-3; }

void testSmall(Report &report) {
  std::vector<Product> products = smallProducts();
  GpuMachine machine(report, planOf(products));
  if (!machine.executor)
    return;
  Status status = fillWithRandomNumbers(machine);
  std::vector<std::vector<uint8_t>> before;
  for (size_t i = 0; i < products.size(); ++i)
    before.push_back(machine.bytes(fmt::format("c{}", i)));
  if (status.isOk())
    status = machine.executor->run(*machine.plan.program("products"));
  if (status.isOk())
    status = machine.executor->wait();
  if (!status.isOk())
    return report.check(status, "products");
  for (size_t i = 0; i < products.size(); ++i) {
    double error = largestError(products[i], machine.bytes(fmt::format("a{}", i)), machine.bytes(fmt::format("b{}", i)),
                                before[i], machine.bytes(fmt::format("c{}", i)));
    report.check(error < tolerance(products[i].resultType), products[i].name, "error {:.1e} of sqrt(k)", error);
  }
}

/// Runs the large products once for the bits and some times for the speed; milliseconds of each.
std::vector<double> timeLarge(Report &report, const std::vector<Product> &products, const std::string &tuningPath,
                              std::vector<std::vector<uint8_t>> &results) {
  constexpr int kRuns = 8;
  GpuMachine machine(report, planOf(products), {.tuningPath = tuningPath});
  if (!machine.executor)
    return {};
  report.check(true, "large products", "{}", machine.executor->description());
  Status status = fillWithRandomNumbers(machine);
  const plan::Program &program = *machine.plan.program("products");
  std::vector<double> milliseconds(products.size(), INFINITY);
  status = status.isOk() ? machine.executor->startRecording() : status;
  for (int run = 0; run < kRuns && status.isOk(); ++run)
    status = machine.executor->run(program);
  Result<Recording> recording = status.isOk() ? machine.executor->finishRecording() : status;
  report.check(recording.status(), "  runs");
  for (size_t run = 0; recording.isOk() && run < recording->runs.size(); ++run) {
    std::map<const plan::Instruction *, double> sums; // a product may take several kernels
    for (const Activity &activity : recording->runs[run].activities)
      sums[activity.instruction] += std::chrono::duration<double, std::milli>(activity.end - activity.begin).count();
    for (uint32_t i = 0; i < products.size(); ++i)
      milliseconds[i] = std::min(milliseconds[i], sums[program.instructions()->Get(i)]);
  }
  for (size_t i = 0; i < products.size(); ++i)
    results.push_back(machine.bytes(fmt::format("c{}", i)));
  return milliseconds;
}

} // namespace

void testProducts(Report &report) {
  testSmall(report);
  const std::vector<Product> products = largeProducts();
  const std::string path = fmt::format("/tmp/tapeout-gpu-test-{}.tuning.json", getpid());
  std::vector<std::vector<uint8_t>> untuned, tuned, again;
  std::vector<double> before = timeLarge(report, products, "", untuned);
  std::vector<double> after = timeLarge(report, products, path, tuned);
  std::vector<double> kept = timeLarge(report, products, path, again);
  unlink(path.c_str());
  report.check(!tuned.empty() && tuned == again, "tuned choices are kept", "the same bits");
  for (size_t i = 0; i < kept.size(); ++i) {
    const plan::MatmulT &p = products[i].matmul;
    double operations = 2e-9 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k); // per ms: TFLOP/s
    report.check(after[i] < before[i] * 1.1, "  " + products[i].name, "first choice {:.3f} ms, tuned {:.3f} ms, {:.0f} TFLOP/s",
                 before[i], after[i], operations / after[i]);
  }
}

} // namespace tapeout::rt::test
