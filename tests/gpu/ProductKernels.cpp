#include "runtime/base/Philox.h"
#include "tests/gpu/GpuTest.h"
#include "tests/runtime/AttentionReference.h"
#include "tests/runtime/ProductCases.h"

#include <algorithm>
#include <cmath>

namespace tapeout::rt::test {
namespace {

using Numbers = std::vector<double>;

struct Reference {
  Numbers y, d, db;
};

double product(const Numbers &rows, const Numbers &weight, const ProductKernelCase &c, int64_t depth, int64_t row,
               int64_t feature) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k)
    sum += rows[row * depth + k] * weight[c.featuresLast ? k * c.features + feature : feature * depth + k];
  return sum;
}

/// GELU and its slope.
std::pair<double, double> gelu(double x, bool byTanh) {
  if (!byTanh) {
    double phi = 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    return {x * phi, phi + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI)};
  }
  const double c = std::sqrt(2 / M_PI), cubic = 0.044715, t = std::tanh(c * (x + cubic * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * cubic * x * x)};
}

Reference referenceOf(const ProductKernelCase &c, const Numbers &x, const Numbers &w, const Numbers &b,
                      const Numbers &dy, const Numbers &v, ThreadPool &pool) {
  Reference r{Numbers(c.rows * c.features), Numbers(c.rows * c.features), Numbers(c.features)};
  pool.parallelFor(c.rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < c.features; ++j) {
        auto [value, slope] = gelu(product(x, w, c, c.depth, i, j) + b[j], c.approximate[0] == 't');
        r.y[i * c.features + j] = value;
        r.d[i * c.features + j] = slope * product(dy, v, c, c.gradientDepth, i, j);
      }
  });
  for (size_t i = 0; i < r.d.size(); ++i)
    r.db[i % c.features] += r.d[i];
  return r;
}

void check(Report &report, const ProductKernelCase &c, const plan::PlanT &plan) {
  GpuMachine machine(report, plan);
  if (!machine.executor)
    return;
  CudaExecutor &executor = *machine.executor;
  Status status;
  auto fill = [&](const char *name, int64_t count, double largest) {
    if (status.isOk())
      status = executor.write(machine.slot(name), [&](std::span<uint8_t> bytes) {
        (void)RandomStream{.seed = 11, .stream = uint64_t(name[0])}.fillUniform(c.type, bytes.data(), 0, count,
                                                                                -largest, largest);
      });
  };
  auto spread = [](int64_t depth) { return 3 / std::sqrt(double(depth)); }; // sums then have a deviation of 1
  fill("x", c.rows * c.depth, 1), fill("w", c.features * c.depth, spread(c.depth)), fill("b", c.features, 1);
  fill("dy", c.rows * c.gradientDepth, 1), fill("v", c.features * c.gradientDepth, spread(c.gradientDepth));
  for (const char *result : {"y", "d", "db"}) // not a number where nothing is written
    if (status.isOk())
      status = executor.write(machine.slot(result),
                              [&](std::span<uint8_t> bytes) { std::fill(bytes.begin(), bytes.end(), 0xFF); });
  auto run = [&] {
    Status queued = executor.run(*machine.plan.program("products"));
    return queued.isOk() ? executor.wait() : queued;
  };
  if (status.isOk())
    status = run();
  if (!status.isOk())
    return report.check(status, c.text());
  auto numbers = [&](const char *name) { return toDouble(c.type, machine.bytes(name)); };
  Reference expected =
      referenceOf(c, numbers("x"), numbers("w"), numbers("b"), numbers("dy"), numbers("v"), executor.pool());
  std::vector<float> sums = machine.floats("db");
  double y = relativeError(numbers("y"), expected.y), d = relativeError(numbers("d"), expected.d);
  double db = relativeError({sums.begin(), sums.end()}, expected.db);
  auto results = [&] { return std::vector{machine.bytes("y"), machine.bytes("d"), machine.bytes("db")}; };
  const auto first = results();
  bool same = true;
  for (int again = 0; again < 3 && status.isOk(); ++again) {
    status = run();
    same &= results() == first;
  }
  const double bound = c.type == tapeout::ElementType::BF16 ? 4e-3 : 1e-3; // roundings of the result and of the slope
  report.check(status.isOk() && same && y < bound && d < bound && db < bound, c.text(),
               "errors: {:.1e}, gradient {:.1e}, sums {:.1e}; {}{}", y, d, db, same ? "same bits" : "OTHER BITS",
               status.message());
}

} // namespace

void testProductKernels(Report &report, const std::string &folder) {
  for (const ProductKernelCase &c : productKernelCases()) {
    std::optional<plan::PlanT> plan = compiledPlan(report, folder + "/" + c.fileName(), "scaled_product");
    if (!plan)
      return;
    check(report, c, *plan);
  }
}

} // namespace tapeout::rt::test
