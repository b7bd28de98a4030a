#include "runtime/device/cuda/CublasProduct.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <initializer_list>

namespace tapeout::rt {
namespace {

constexpr uint64_t kMaxAlignment = 256; // what the library takes for granted, unless told otherwise

int cudaType(ElementType type) {
  return type == ElementType::F32 ? kCudaR32F : type == ElementType::BF16 ? kCudaR16BF : kCudaR16F;
}

/// The largest power of two that divides every address of an operand over the outer loop.
uint32_t alignmentOf(CuDevicePointer pointer, int64_t outerStride, size_t elementBytes) {
  uint64_t bits = pointer | (static_cast<uint64_t>(outerStride) * elementBytes) | kMaxAlignment;
  return static_cast<uint32_t>(bits & -bits);
}

std::string text(const MatrixLayout &layout, uint32_t alignment) {
  return fmt::format("{}x{}/{}{} batch {} align {}", layout.rows, layout.columns, layout.leadingDimension,
                     layout.transposed ? "T" : "", layout.batchStride, alignment);
}

} // namespace

Status CublasContext::check(CublasStatus status, const char *what) const {
  if (status == kCublasSuccess)
    return Status::ok();
  return Status::error(ExitCode::Failed, fmt::format("cuBLASLt: {}: {}", what, library.getStatusString(status)));
}

Result<CublasProduct> CublasProduct::create(const CublasContext &context, const GemmProblem &problem,
                                            const ProductOperands &operands) {
  Result<MatmulLayout> layout = chooseMatmulLayout(problem);
  if (!layout.isOk())
    return layout.status();
  CublasProduct product;
  product.context_ = &context;
  product.layout_ = *layout;
  product.left_ = layout->swapped ? operands.b : operands.a;
  product.right_ = layout->swapped ? operands.a : operands.b;
  product.result_ = operands.c;
  product.leftBytes_ = elementSize(operands.type);
  product.resultBytes_ = elementSize(operands.resultType);
  product.beta_ = problem.accumulate ? 1 : 0;
  TAPEOUT_RETURN_IF_ERROR(product.describe(operands));
  return product;
}

Status CublasProduct::describe(const ProductOperands &operands) {
  const CublasLt &library = context_->library;
  auto set = [&](int attribute, bool transposed) {
    int32_t operation = transposed ? kCublasOpT : kCublasOpN;
    return library.matmulDescSetAttribute(desc_.get(), attribute, &operation, sizeof operation);
  };
  CublasMatmulDesc desc;
  TAPEOUT_RETURN_IF_ERROR(context_->check(library.matmulDescCreate(&desc, kCublasCompute32F, kCudaR32F), "a product"));
  desc_ = Owned(desc, library.matmulDescDestroy);
  TAPEOUT_RETURN_IF_ERROR(context_->check(set(kMatmulDescTransA, layout_.left.transposed), "a transposed operand"));
  TAPEOUT_RETURN_IF_ERROR(context_->check(set(kMatmulDescTransB, layout_.right.transposed), "a transposed operand"));
  if (operands.bias != 0) { // the library adds to rows of c^T
    assert(layout_.swapped && layout_.batch == 1 && layout_.outer == 1);
    const uint32_t epilogue = kEpilogueBias;
    CublasStatus status = library.matmulDescSetAttribute(desc_.get(), kMatmulDescEpilogue, &epilogue, sizeof epilogue);
    if (status == kCublasSuccess)
      status = library.matmulDescSetAttribute(desc_.get(), kMatmulDescBiasPointer, &operands.bias, sizeof operands.bias);
    TAPEOUT_RETURN_IF_ERROR(context_->check(status, "a bias"));
  }

  auto makeLayout = [&](const MatrixLayout &from, ElementType type, Owned<CublasMatrixLayout> &to) {
    CublasMatrixLayout layout;
    TAPEOUT_RETURN_IF_ERROR(context_->check(
        library.layoutCreate(&layout, cudaType(type), from.rows, from.columns, from.leadingDimension), "a matrix"));
    to = Owned(layout, library.layoutDestroy);
    auto batch = static_cast<int32_t>(layout_.batch);
    CublasStatus status = library.layoutSetAttribute(layout, kLayoutBatchCount, &batch, sizeof batch);
    if (status == kCublasSuccess)
      status = library.layoutSetAttribute(layout, kLayoutBatchStride, &from.batchStride, sizeof from.batchStride);
    return context_->check(status, "a batch of matrices");
  };
  TAPEOUT_RETURN_IF_ERROR(makeLayout(layout_.left, operands.type, leftLayout_));
  TAPEOUT_RETURN_IF_ERROR(makeLayout(layout_.right, operands.type, rightLayout_));
  TAPEOUT_RETURN_IF_ERROR(makeLayout(layout_.result, operands.resultType, resultLayout_));
  key_ = fmt::format("{} {} {}{}: {}; {}; {}; batch {}", name(operands.type), name(operands.resultType),
                     beta_ == 0 ? "overwrite" : "accumulate", operands.bias != 0 ? " bias" : "",
                     text(layout_.left, alignmentOf(left_, layout_.left.outerStride, leftBytes_)),
                     text(layout_.right, alignmentOf(right_, layout_.right.outerStride, leftBytes_)),
                     text(layout_.result, alignmentOf(result_, layout_.result.outerStride, resultBytes_)), layout_.batch);
  return Status::ok();
}

Result<std::vector<CublasAlgorithm>> CublasProduct::candidates(int count) const {
  const CublasLt &library = context_->library;
  CublasPreference created;
  TAPEOUT_RETURN_IF_ERROR(context_->check(library.preferenceCreate(&created), "preferences"));
  Owned preference(created, library.preferenceDestroy);
  CublasStatus status = kCublasSuccess;
  auto prefer = [&](int attribute, auto value) {
    if (status == kCublasSuccess)
      status = library.preferenceSetAttribute(preference.get(), attribute, &value, sizeof value);
  };
  uint32_t resultAlignment = alignmentOf(result_, layout_.result.outerStride, resultBytes_);
  prefer(kPreferenceWorkspaceBytes, static_cast<uint64_t>(context_->workspaceBytes));
  // Parts of a sum are f32 in the workspace, added in a fixed order; other schemes round them to the type of the result.
  prefer(kPreferenceReductionSchemes, kReductionComputeType);
  prefer(kPreferenceAlignmentA, alignmentOf(left_, layout_.left.outerStride, leftBytes_));
  prefer(kPreferenceAlignmentB, alignmentOf(right_, layout_.right.outerStride, leftBytes_));
  prefer(kPreferenceAlignmentC, resultAlignment);
  prefer(kPreferenceAlignmentD, resultAlignment);
  TAPEOUT_RETURN_IF_ERROR(context_->check(status, "preferences"));

  std::vector<CublasHeuristic> found(count);
  int foundCount = 0;
  status = library.algoGetHeuristic(context_->handle.get(), desc_.get(), leftLayout_.get(), rightLayout_.get(),
                                    resultLayout_.get(), resultLayout_.get(), preference.get(), count, found.data(),
                                    &foundCount);
  std::vector<CublasAlgorithm> algorithms;
  for (int i = 0; status == kCublasSuccess && i < std::min(foundCount, count); ++i)
    if (found[i].state == kCublasSuccess && found[i].workspaceBytes <= context_->workspaceBytes)
      algorithms.push_back(found[i].algorithm);
  if (algorithms.empty())
    return Status::error(ExitCode::Unavailable,
                         fmt::format("cuBLASLt has no kernel for the matrix product {} within {} bytes of workspace ({}); "
                                     "use a newer CUDA toolkit or another --precision",
                                     key_, context_->workspaceBytes,
                                     status == kCublasSuccess ? "nothing fits" : library.getStatusString(status)));
  return algorithms;
}

bool CublasProduct::accepts(const CublasAlgorithm &algorithm) const {
  CublasHeuristic result = {};
  CublasStatus status =
      context_->library.algoCheck(context_->handle.get(), desc_.get(), leftLayout_.get(), rightLayout_.get(),
                                  resultLayout_.get(), resultLayout_.get(), &algorithm, &result);
  return status == kCublasSuccess && result.state == kCublasSuccess && result.workspaceBytes <= context_->workspaceBytes;
}

Status CublasProduct::run(const CublasAlgorithm &algorithm) const {
  const float one = 1;
  for (int64_t i = 0; i < layout_.outer; ++i) {
    auto at = [&](CuDevicePointer pointer, const MatrixLayout &layout, size_t bytes) {
      return reinterpret_cast<void *>(pointer + i * layout.outerStride * bytes);
    };
    void *result = at(result_, layout_.result, resultBytes_);
    CublasStatus status = context_->library.matmul(
        context_->handle.get(), desc_.get(), &one, at(left_, layout_.left, leftBytes_), leftLayout_.get(),
        at(right_, layout_.right, leftBytes_), rightLayout_.get(), &beta_, result, resultLayout_.get(), result,
        resultLayout_.get(), &algorithm, reinterpret_cast<void *>(context_->workspace), context_->workspaceBytes,
        context_->stream);
    TAPEOUT_RETURN_IF_ERROR(context_->check(status, "a matrix product"));
  }
  return Status::ok();
}

} // namespace tapeout::rt
