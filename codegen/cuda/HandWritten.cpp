#include "codegen/cuda/HandWritten.h"

#include "codegen/cuda/device/AttentionGradient.h"
#include "codegen/cuda/device/DeviceCode.h"
#include "codegen/cuda/device/GeluProduct.h"
#include "ir/tape/Attention.h"
#include "ir/tape/ProductKernels.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace mlir;

namespace tapeout::codegen {
namespace {

// An H100 and an H200 have as many multiprocessors, each of which holds one block. Any number gives the same bits.
constexpr int64_t kMultiprocessors = 132;

static_assert(kAttentionHead == tape::kKernelHead && kAttentionTile == tape::kKernelTile);
static_assert(kProductFeatures == tape::kProductFeatures && kProductTokens == tape::kProductRows &&
              kProductInner == tape::kProductDepth);

std::unique_ptr<llvm::Module> parse(llvm::StringRef code, llvm::LLVMContext &context) {
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(code, "device code"), context);
  if (!module)
    llvm::report_fatal_error(module.takeError()); // it comes from the build
  return std::move(*module);
}

/// Gives the module's declaration of a constant its value, byte by byte.
void define(llvm::Module &module, llvm::StringRef name, llvm::ArrayRef<uint8_t> bytes) {
  llvm::GlobalVariable *declared = module.getGlobalVariable(name);
  llvm::Constant *value = llvm::ConstantDataArray::get(module.getContext(), bytes);
  auto *defined =
      new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage, value);
  defined->setAlignment(declared->getAlign());
  declared->replaceAllUsesWith(defined);
  declared->eraseFromParent();
}

uint32_t readConstant(const llvm::Module &module, llvm::StringRef name) {
  return llvm::cast<llvm::ConstantInt>(module.getGlobalVariable(name)->getInitializer())->getZExtValue();
}

/// Keeps one function, under a new name.
void keepOnly(llvm::Module &module, llvm::StringRef function, llvm::StringRef symbol) {
  if (llvm::NamedMDNode *annotations = module.getNamedMetadata("nvvm.annotations"))
    annotations->eraseFromParent(); // emitPtx writes them
  for (llvm::Function &other : llvm::make_early_inc_range(module))
    if (!other.isDeclaration() && other.getName() != function)
      other.eraseFromParent();
  module.getFunction(function)->setName(symbol);
}

/// One kernel of a module of device code, for some sizes, under a new name.
template <typename Sizes> struct Specialised {
  llvm::StringRef code, sharedBytesName, sizesName, function;
  Sizes sizes;

  /// For so much work, one piece for a block at once.
  HandWrittenKernel build(llvm::StringRef symbol, int64_t pieces, uint32_t threads, llvm::LLVMContext &context) const {
    HandWrittenKernel result;
    result.module = parse(code, context);
    CudaKernel &built = result.kernel;
    built.symbol = symbol.str();
    built.blocks = std::min(pieces, kMultiprocessors);
    built.threads = threads;
    built.sharedBytes = readConstant(*result.module, sharedBytesName);
    built.argumentTable = false;
    define(*result.module, sizesName, {reinterpret_cast<const uint8_t *>(&sizes), sizeof sizes});
    keepOnly(*result.module, function, symbol);
    result.bound = {built.symbol, threads, /*resident=*/1};
    return result;
  }
};

/// The sizes of a kernel for [batch, tokens, heads, size]; tensors of heads lie at op.places, in the order of
/// `tensors`.
template <typename Op>
FailureOr<AttentionSizes> sizesOf(Op op, llvm::ArrayRef<AttentionTensor> tensors, unsigned sums) {
  if (!op.getSums())
    tensors = tensors.drop_back(sums);
  ArrayRef<int64_t> query = tape::shapeOf(op.getQuery());
  AttentionSizes sizes{};
  sizes.batch = query[0];
  sizes.tokens = query[1];
  sizes.heads = query[2];
  sizes.causal = op.getCausal();
  sizes.scale = op.getScale().convertToDouble();
  auto places = op.getPlaces();
  if (!places || places->size() != 4 * tensors.size() || query[3] != kAttentionHead)
    return op.emitError("is no kernel of heads of ") << kAttentionHead << " elements with a place for each tensor";
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    ArrayRef<int64_t> place = places->slice(4 * i, 4);
    if (place[0] % 8 != 0)
      return op.emitError("has a tensor that begins ")
             << place[0]
             << " elements behind another one, no multiple of 8; compile with --skip-pass select-attention-kernels";
    sizes.places[tensor] = {place[0], place[1], place[2], place[3]};
  }
  return sizes;
}

FailureOr<AttentionSizes> sizesOf(Operation &op) {
  if (auto ofQuery = dyn_cast<tape::AttentionQueryGradientOp>(op))
    return sizesOf(ofQuery, {kQuery, kKey, kValue, kResult, kResultGradient, kQueryGradient, kQuerySums}, /*sums=*/1);
  return sizesOf(cast<tape::AttentionKeyGradientsOp>(op),
                 {kQuery, kKey, kValue, kResultGradient, kKeyGradient, kValueGradient, kKeySums, kValueSums},
                 /*sums=*/2);
}

FailureOr<HandWrittenKernel> buildAttention(plan::KernelOp kernel, llvm::LLVMContext &context) {
  Block &body = kernel.getBody().front();
  Operation &op = body.front();
  FailureOr<AttentionSizes> sizes = sizesOf(op);
  if (failed(sizes))
    return failure();
  const bool ofQuery = isa<tape::AttentionQueryGradientOp>(op);
  std::string function = ofQuery ? "attention_query_gradient_" : "attention_key_gradients_";
  if (op.hasAttr("sums"))
    function += "sums_";
  function += tape::elementOf(op.getOperand(0)).isBF16() ? "bf16" : "f16";

  const Specialised<AttentionSizes> specialised{
      attentionGradientCode(), ofQuery ? "tapeoutAttentionQueryBytes" : "tapeoutAttentionKeyBytes",
      "tapeoutAttentionSizes", function, *sizes};
  const int64_t rowBlocks = llvm::divideCeil(sizes->tokens, kAttentionTile * kAttentionGroups);
  const int64_t pairs = llvm::divideCeil(rowBlocks, 2) * sizes->batch * sizes->heads;
  HandWrittenKernel result = specialised.build(kernel.getSymName(), pairs, kAttentionThreads, context);
  result.kernel.resultCount = body.getTerminator()->getNumOperands();
  result.kernel.argumentCount = body.getNumArguments() + result.kernel.resultCount;
  return result;
}

TensorMap mapOf(uint32_t argument, int64_t rows, int64_t columns, ProductBox box) {
  return {argument, /*offset=*/0, rows, columns, /*rowStride=*/columns, uint32_t(box.rows), uint32_t(box.columns)};
}

/// The kernel of an op of ir/tape/ProductKernels.td. Its arguments are the op's operands and results.
template <typename Op>
FailureOr<HandWrittenKernel> buildProduct(Op op, GeluProduct::Kind kind, StringRef symbol, llvm::LLVMContext &context) {
  auto sizes = tape::productKernelSizes(op.getOperand(), op.getWeight(), op.getSummed());
  if (!sizes) // the op's types say so, too
    return op.emitError("is no product of tiles of ") << kProductFeatures << " features and " << kProductInner << " summed";
  const bool byInner = op.getSummed() == 0;
  GeluProduct product{kind, byInner, tape::elementOf(op.getOperand()).isBF16(),
                      {int32_t(sizes->rows), int32_t(sizes->features), int32_t(sizes->depth)}};
  return buildGeluProduct(product, symbol, context);
}

} // namespace

FailureOr<HandWrittenKernel> buildHandWritten(plan::KernelOp kernel, llvm::LLVMContext &context) {
  Operation &op = kernel.getBody().front().front();
  if (auto gelu = dyn_cast<tape::GeluProductOp>(op))
    return buildProduct(gelu, gelu.getApproximate() == "tanh" ? GeluProduct::kTanh : GeluProduct::kErf, kernel.getSymName(), context);
  if (auto scaled = dyn_cast<tape::ScaledProductOp>(op))
    return buildProduct(scaled, GeluProduct::kScaled, kernel.getSymName(), context);
  return buildAttention(kernel, context);
}

HandWrittenKernel buildGeluProduct(const GeluProduct &product, llvm::StringRef symbol, llvm::LLVMContext &context) {
  const GeluProductSizes &sizes = product.sizes;
  assert(sizes.tokens > 0 && sizes.features % kProductFeatures == 0 && sizes.inner % kProductInner == 0 &&
         sizes.inner > 0 && "the kernel has no such tiles");
  const char *kinds[] = {"gelu_product_tanh", "gelu_product_erf", "scaled_product"};
  const std::string function = std::string(kinds[product.kind]) +
                               (product.weightsByInner ? "_by_inner" : "_by_feature") +
                               (product.bf16 ? "_bf16" : "_f16");
  const int64_t tiles = llvm::divideCeil(sizes.tokens, kProductTokens) * (sizes.features / kProductFeatures);
  HandWrittenKernel result = Specialised<GeluProductSizes>{geluProductCode(), "tapeoutGeluProductBytes",
                                                           "tapeoutGeluProductSizes", function, sizes}
                                 .build(symbol, tiles, kProductThreads, context);
  result.kernel.resultCount = 2;
  result.kernel.argumentCount = 5;
  auto &maps = result.kernel.tensorMaps;
  maps.push_back(mapOf(0, sizes.tokens, sizes.inner, kProductTokensBox));
  maps.push_back(product.weightsByInner ? mapOf(1, sizes.inner, sizes.features, kWeightsByInnerBox)
                                        : mapOf(1, sizes.features, sizes.inner, kWeightsByFeatureBox));
  for (uint32_t argument : product.kind == GeluProduct::kScaled ? std::array{2u, 3u} : std::array{3u, 4u})
    maps.push_back(mapOf(argument, sizes.tokens, sizes.features, kProductResultBox));
  return result;
}

} // namespace tapeout::codegen
