#include "ir/tape/Target.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace tapeout::tape {
namespace {

// cpu: its products are our own (runtime/device/cpu/Gemm.cpp). cuda: those of cuBLASLt and cuDNN.
constexpr Target kTargets[] = {
    {"cpu", /*tileEpilogues=*/true, /*biasEpilogues=*/false, /*windows=*/true, /*anyStrides=*/true, /*batchDimensions=*/4,
     /*productCalls=*/1, /*attentionHeadSize=*/0, /*columnReductionParts=*/1, /*bandsInRowKernels=*/false,
     /*sortedEmbeddingGrad=*/false},
    {"cuda", /*tileEpilogues=*/false, /*biasEpilogues=*/true, /*windows=*/false, /*anyStrides=*/false, /*batchDimensions=*/1,
     /*productCalls=*/15, /*attentionHeadSize=*/128, /*columnReductionParts=*/512, /*bandsInRowKernels=*/true,
     /*sortedEmbeddingGrad=*/true},
};

/// Rows or columns are contiguous and do not overlap: the other stride is a leading dimension.
bool isPlainMatrix(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  bool byRows = (columns == 1 || columnStride == 1) && (rows == 1 || rowStride >= columns);
  bool byColumns = (rows == 1 || rowStride == 1) && (columns == 1 || columnStride >= rows);
  return byRows || byColumns;
}

using Batch = StridedMatmul::Batch;

bool isAround(const Batch &outer, const Batch &inner) { // together, they are one dimension
  return outer.lhs == inner.extent * inner.lhs && outer.rhs == inner.extent * inner.rhs &&
         outer.result == inner.extent * inner.result;
}

void mergeBatches(SmallVectorImpl<Batch> &batches) {
  for (size_t outer = 0; outer < batches.size(); ++outer)
    for (size_t inner = 0; inner < batches.size(); ++inner)
      if (outer != inner && isAround(batches[outer], batches[inner])) {
        batches[inner].extent *= batches[outer].extent;
        batches.erase(batches.begin() + outer);
        return mergeBatches(batches);
      }
}

} // namespace

const Target *findTarget(StringRef name) {
  const Target *found = llvm::find_if(kTargets, [&](const Target &target) { return target.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

const Target &targetOf(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  auto name = module ? module->getAttrOfType<StringAttr>(kTargetAttr) : StringAttr();
  const Target *target = name ? findTarget(name) : nullptr;
  return target ? *target : kTargets[0]; // verify-imported refuses unknown names
}

std::optional<StridedMatmul> asTargetMatmul(const Target &target, const StridedMatmul &matmul) {
  StridedMatmul call = matmul;
  if (!target.anyStrides) {
    bool plain = isPlainMatrix(call.m, call.k, call.lhsRow, call.lhsColumn) &&
                 isPlainMatrix(call.k, call.n, call.rhsRow, call.rhsColumn) &&
                 isPlainMatrix(call.m, call.n, call.resultRow, call.resultColumn);
    if (!plain)
      return std::nullopt;
    mergeBatches(call.batch);
    llvm::stable_sort(call.batch, [](const Batch &a, const Batch &b) { return a.extent < b.extent; });
  }
  int64_t calls = 1;
  for (int64_t d = 0; d + target.batchDimensions < int64_t(call.batch.size()); ++d)
    calls *= call.batch[d].extent;
  return calls <= target.productCalls ? std::optional(call) : std::nullopt;
}

} // namespace tapeout::tape
