// cublasLt of the fake: column-major products with f32 operands or results of other types, straight from the definition.
#include "runtime/base/BFloat16.h"
#include "runtime/device/cuda/CublasLt.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <cstring>
#include <map>

using namespace tapeout;
using namespace tapeout::rt;
using namespace tapeout::rt::test;

namespace {

struct Desc {
  int32_t transposed[2] = {0, 0};
  uint32_t epilogue = 1; // none
  const void *bias = nullptr;
};
struct Layout {
  int type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;

  int64_t at(int64_t matrix, int64_t row, int64_t column) const { return matrix * stride + column * leading + row; }
};
struct Preference {
  uint64_t workspaceBytes = 0;
};

float load(const Layout &layout, const void *matrix, int64_t index) {
  if (layout.type == kCudaR32F)
    return static_cast<const float *>(matrix)[index];
  uint16_t bits = static_cast<const uint16_t *>(matrix)[index];
  return layout.type == kCudaR16BF ? bfloat16ToFloat(bits) : halfToFloat(bits);
}

void store(const Layout &layout, void *matrix, int64_t index, double value) {
  if (layout.type == kCudaR32F)
    static_cast<float *>(matrix)[index] = static_cast<float>(value);
  else
    static_cast<uint16_t *>(matrix)[index] = layout.type == kCudaR16BF ? doubleToBfloat16(value) : doubleToHalf(value);
}

void multiply(const Desc &desc, const void *a, const Layout &aLayout, const void *b, const Layout &bLayout, float beta, void *d,
              const Layout &layout) {
  int64_t inner = desc.transposed[0] ? aLayout.rows : aLayout.columns;
  for (int64_t matrix = 0; matrix < layout.batch; ++matrix)
    for (int64_t column = 0; column < layout.columns; ++column)
      for (int64_t row = 0; row < layout.rows; ++row) {
        double sum = beta == 0 ? 0 : beta * load(layout, d, layout.at(matrix, row, column));
        for (int64_t p = 0; p < inner; ++p)
          sum += double(load(aLayout, a, desc.transposed[0] ? aLayout.at(matrix, p, row) : aLayout.at(matrix, row, p))) *
                 load(bLayout, b, desc.transposed[1] ? bLayout.at(matrix, column, p) : bLayout.at(matrix, p, column));
        if (desc.epilogue == kEpilogueBias)
          sum += load(layout, desc.bias, row);
        store(layout, d, layout.at(matrix, row, column), sum);
      }
}

template <typename T, typename... Values> int create(T **handle, Values... values) {
  *handle = new T{values...};
  ++fakeCuda().liveObjects;
  return 0;
}
template <typename T> int destroy(T *handle) {
  delete handle;
  --fakeCuda().liveObjects;
  return 0;
}

} // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
const char *cublasLtGetStatusString(int status) { return status == 0 ? "success" : "a fake error"; }
int cublasLtCreate(int **handle) { return create(handle); }
int cublasLtDestroy(int *handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(Desc **desc, int compute, int scale) {
  return compute == kCublasCompute32F && scale == kCudaR32F ? create(desc) : 7;
}
int cublasLtMatmulDescDestroy(Desc *desc) { return destroy(desc); }
int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, size_t bytes) {
  const std::map<int, std::pair<void *, size_t>> known = {{kMatmulDescTransA, {&desc->transposed[0], sizeof(int32_t)}},
                                                          {kMatmulDescTransB, {&desc->transposed[1], sizeof(int32_t)}},
                                                          {kMatmulDescEpilogue, {&desc->epilogue, sizeof desc->epilogue}},
                                                          {kMatmulDescBiasPointer, {&desc->bias, sizeof desc->bias}}};
  auto found = known.find(attribute);
  if (found == known.end() || bytes != found->second.second)
    return 7;
  std::memcpy(found->second.first, value, bytes);
  return 0;
}
int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return create(layout, type, int64_t(rows), int64_t(columns), leading);
}
int cublasLtMatrixLayoutDestroy(Layout *layout) { return destroy(layout); }
int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes) {
  bool batch = attribute == kLayoutBatchCount;
  if (bytes != (batch ? sizeof layout->batch : sizeof layout->stride))
    return 7;
  std::memcpy(batch ? static_cast<void *>(&layout->batch) : &layout->stride, value, bytes);
  return 0;
}
int cublasLtMatmulPreferenceCreate(Preference **preference) { return create(preference); }
int cublasLtMatmulPreferenceDestroy(Preference *preference) { return destroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes) {
  if (bytes != (attribute == kPreferenceWorkspaceBytes ? sizeof(uint64_t) : sizeof(uint32_t)))
    return 7;
  if (attribute == kPreferenceWorkspaceBytes)
    std::memcpy(&preference->workspaceBytes, value, bytes);
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void *, Desc *desc, Layout *, Layout *, Layout *, Layout *, Preference *, int wanted,
                                   CublasHeuristic *results, int *found) {
  *found = 0;
  if (desc->epilogue == kEpilogueBias && fakeCuda().biasMilliseconds < 0)
    return 15;
  for (int i = 0; i < int(fakeCuda().algorithmMilliseconds.size()) && *found < wanted; ++i)
    if (i != fakeCuda().unlistedAlgorithm)
      results[(*found)++] = {
          .algorithm = {{uint64_t(i), 77}}, .workspaceBytes = size_t(i) * 1024, .state = 0, .waves = 1, .reserved = {}};
  return 0;
}
int cublasLtMatmulAlgoCheck(void *, Desc *, Layout *, Layout *, Layout *, Layout *, const CublasAlgorithm *algorithm,
                            CublasHeuristic *result) {
  bool known = algorithm->data[0] < fakeCuda().algorithmMilliseconds.size() && algorithm->data[1] == 77;
  *result = {.algorithm = {}, .workspaceBytes = algorithm->data[0] * 1024, .state = known ? 0 : 15, .waves = 1, .reserved = {}};
  return known ? 0 : 15;
}
int cublasLtMatmul(void *, Desc *desc, const float *, const void *a, Layout *aLayout, const void *b, Layout *bLayout,
                   const float *beta, const void *c, Layout *, void *d, Layout *dLayout, const CublasAlgorithm *algorithm,
                   void *, size_t, void *) {
  if (c != d)
    return 7;
  auto index = static_cast<int>(algorithm->data[0]);
  const double milliseconds =
      fakeCuda().algorithmMilliseconds.at(index) + (desc->epilogue == kEpilogueBias ? fakeCuda().biasMilliseconds : 0);
  fakeCuda().submit(
      [=, desc = *desc, aLayout = *aLayout, bLayout = *bLayout, dLayout = *dLayout, beta = *beta] {
        fakeCuda().algorithms.push_back(index);
        multiply(desc, a, aLayout, b, bLayout, beta, d, dLayout);
      },
      milliseconds / fakeCuda().kernelsPerProduct, FakeCuda::Kind::Kernel, "fake_product");
  for (int i = 1; i < fakeCuda().kernelsPerProduct; ++i)
    fakeCuda().submit([] {}, milliseconds / fakeCuda().kernelsPerProduct, FakeCuda::Kind::Kernel, "fake_reduction");
  if (fakeCuda().readsInGraph)
    fakeCuda().submit([] {}, 0.5, FakeCuda::Kind::CopyToHost);
  return 0;
}

} // extern "C"
