// Speed of the matrix product at the shapes of training: GemmBench --benchmark_repetitions=9 prints medians.
// `peak` is the share of what one thread reaches with multiply-adds on registers alone, times the threads.
#include "runtime/device/cpu/Gemm.h"
#include "tools/bench/Roofs.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

namespace tapeout::rt {
namespace {

GemmProblem plain(int64_t m, int64_t n, int64_t k, bool aTransposed, bool bTransposed) {
  GemmProblem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.aRowStride = aTransposed ? 1 : k, problem.aColumnStride = aTransposed ? m : 1;
  problem.bRowStride = bTransposed ? 1 : n, problem.bColumnStride = bTransposed ? k : 1;
  problem.cRowStride = n, problem.cColumnStride = 1;
  return problem;
}

constexpr int64_t batch = 12, tokens = 64, heads = 4, headWidth = 32;
constexpr int64_t tokenStride = heads * headWidth, sampleStride = tokens * tokenStride, scores = tokens * tokens;

/// scores = q k^T, heads interleaved in the token rows.
GemmProblem attentionScores() {
  GemmProblem problem = plain(tokens, tokens, headWidth, false, true);
  problem.aRowStride = problem.bColumnStride = tokenStride;
  problem.batchDims = 2;
  problem.batch[0] = {batch, sampleStride, sampleStride, heads * scores};
  problem.batch[1] = {heads, headWidth, headWidth, scores};
  return problem;
}

/// output = probabilities v, or the gradient of v from the transposed probabilities.
GemmProblem attentionValues(bool transposed) {
  GemmProblem problem = plain(tokens, headWidth, tokens, transposed, false);
  problem.bRowStride = problem.cRowStride = tokenStride;
  problem.batchDims = 2;
  problem.batch[0] = {batch, heads * scores, sampleStride, sampleStride};
  problem.batch[1] = {heads, scores, headWidth, headWidth};
  return problem;
}

struct Shape {
  const char *name;
  GemmProblem problem;
};

/// Weights are [outputs, inputs]: forward multiplies by their transpose (nt), dx by them (nn), dw is x^T dy (tn).
std::vector<Shape> shapes() {
  auto nt = [](int64_t m, int64_t n, int64_t k) { return plain(m, n, k, false, true); };
  auto nn = [](int64_t m, int64_t n, int64_t k) { return plain(m, n, k, false, false); };
  auto tn = [](int64_t m, int64_t n, int64_t k) { return plain(m, n, k, true, false); };
  return {{"gpt-4x128/qkv", nt(768, 384, 128)},       {"gpt-4x128/qkv.dx", nn(768, 128, 384)},
          {"gpt-4x128/qkv.dw", tn(384, 128, 768)},    {"gpt-4x128/proj", nt(768, 128, 128)},
          {"gpt-4x128/proj.dw", tn(128, 128, 768)},   {"gpt-4x128/up", nt(768, 512, 128)},
          {"gpt-4x128/up.dx", nn(768, 128, 512)},     {"gpt-4x128/up.dw", tn(512, 128, 768)},
          {"gpt-4x128/down", nt(768, 128, 512)},      {"gpt-4x128/down.dx", nn(768, 512, 128)},
          {"gpt-4x128/head", nt(768, 256, 128)},      {"gpt-4x128/scores", attentionScores()},
          {"gpt-4x128/values", attentionValues(false)}, {"gpt-4x128/values.dv", attentionValues(true)},
          {"gpt-6x384/qkv", nt(1024, 1152, 384)},     {"gpt-6x384/up", nt(1024, 1536, 384)},
          {"gpt-6x384/down", nt(1024, 384, 1536)},    {"gpt-6x384/up.dw", tn(1536, 384, 1024)},
          {"mlp/1", nt(64, 512, 784)},                {"mlp/1.dw", tn(512, 784, 64)},
          {"mlp/2", nt(64, 512, 512)},                {"mlp/3", nt(64, 10, 512)},
          {"mlp/3.dx", nn(64, 512, 10)},              {"mlp/3.dw", tn(10, 512, 64)},
          {"gpt2-124m/qkv", nt(4096, 2304, 768)},     {"gpt2-124m/head", nt(4096, 50257, 768)}};
}

/// One past the largest offset of an operand.
int64_t sizeOf(const GemmProblem &problem, int64_t rows, int64_t rowStride, int64_t columns, int64_t columnStride,
               int64_t GemmBatchDim::*batchStride) {
  int64_t size = 1 + (rows - 1) * rowStride + (columns - 1) * columnStride;
  for (const GemmBatchDim &dim : problem.batch)
    size += (dim.extent - 1) * (dim.*batchStride);
  return size;
}

void runShape(benchmark::State &state, const GemmProblem &problem, CpuIsa isa, int threads, double peak) {
  const GemmProblem &p = problem;
  std::vector<float> a(sizeOf(p, p.m, p.aRowStride, p.k, p.aColumnStride, &GemmBatchDim::aStride), 0.5f);
  std::vector<float> b(sizeOf(p, p.k, p.bRowStride, p.n, p.bColumnStride, &GemmBatchDim::bStride), 0.25f);
  std::vector<float> c(sizeOf(p, p.m, p.cRowStride, p.n, p.cColumnStride, &GemmBatchDim::cStride), 0.0f);
  ThreadPool pool(threads);
  Result<GemmWorkspace> workspace = GemmWorkspace::create(threads);
  if (!workspace.isOk())
    return state.SkipWithError(workspace.status().message().c_str());
  for (auto _ : state)
    gemm(p, a.data(), b.data(), c.data(), isa, pool, *workspace);

  double operations = 2.0 * p.m * p.n * p.k * state.iterations();
  for (const GemmBatchDim &dim : p.batch)
    operations *= dim.extent;
  using benchmark::Counter;
  state.counters["FLOPS"] = Counter(operations, Counter::kIsRate);
  state.counters["peak"] = Counter(operations / (peak * threads), Counter::kIsRate);
}

} // namespace
} // namespace tapeout::rt

int main(int argc, char **argv) {
  using namespace tapeout;
  using namespace tapeout::rt;
  Result<CpuIsa> detected = detectCpuIsa();
  if (!detected.isOk()) {
    std::fprintf(stderr, "%s\n", detected.status().message().c_str());
    return static_cast<int>(detected.status().code());
  }
  benchmark::Initialize(&argc, argv);
  std::vector<CpuIsa> isas = {CpuIsa::Avx2};
  if (*detected == CpuIsa::Avx512)
    isas.push_back(CpuIsa::Avx512);
  ThreadPool oneThread(1);
  for (CpuIsa isa : isas) {
    double peak = bench::measureFlopsPerSecond(oneThread, isa);
    const char *isaName = isa == CpuIsa::Avx512 ? "avx512" : "avx2";
    std::printf("%s: one thread reaches %.1f GFLOP/s on registers\n", isaName, peak / 1e9);
    for (const Shape &shape : shapes())
      for (int threads : {1, 2})
        benchmark::RegisterBenchmark(
            (std::string(shape.name) + "/" + isaName + "/threads:" + std::to_string(threads)).c_str(),
            [problem = shape.problem, isa, threads, peak](benchmark::State &state) {
              runShape(state, problem, isa, threads, peak);
            })
            ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
