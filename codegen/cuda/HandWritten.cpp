#include "codegen/cuda/HandWritten.h"

#include "codegen/cuda/device/AttentionGradient.h"
#include "codegen/cuda/device/DeviceCode.h"
#include "ir/tape/Attention.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cstring>

using namespace mlir;

namespace tapeout::codegen {
namespace {

// An H100 and an H200 have as many multiprocessors, each of which holds one block. Any number gives the same bits.
constexpr int64_t kMultiprocessors = 132;

static_assert(kAttentionHead == tape::kKernelHead && kAttentionTile == tape::kKernelTile);

std::unique_ptr<llvm::Module> parseDeviceCode(llvm::LLVMContext &context) {
  llvm::StringRef bytes = attentionGradientCode();
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bytes, "AttentionGradient"), context);
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

} // namespace

FailureOr<HandWrittenKernel> buildHandWritten(plan::KernelOp kernel, llvm::LLVMContext &context) {
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

  HandWrittenKernel result;
  result.module = parseDeviceCode(context);
  uint32_t sharedBytes =
      readConstant(*result.module, ofQuery ? "tapeoutAttentionQueryBytes" : "tapeoutAttentionKeyBytes");
  const auto *bytes = reinterpret_cast<const uint8_t *>(&*sizes);
  define(*result.module, "tapeoutAttentionSizes", {bytes, sizeof(AttentionSizes)});
  keepOnly(*result.module, function, kernel.getSymName());

  const int64_t rowBlocks = llvm::divideCeil(sizes->tokens, kAttentionTile * kAttentionGroups);
  const int64_t pairs = llvm::divideCeil(rowBlocks, 2) * sizes->batch * sizes->heads;
  CudaKernel &built = result.kernel;
  built.symbol = kernel.getSymName().str();
  built.blocks = std::min(pairs, kMultiprocessors);
  built.threads = kAttentionThreads;
  built.sharedBytes = sharedBytes;
  built.argumentTable = false;
  built.resultCount = body.getTerminator()->getNumOperands();
  built.argumentCount = body.getNumArguments() + built.resultCount;
  result.bound = {built.symbol, kAttentionThreads, /*resident=*/1};
  return result;
}

} // namespace tapeout::codegen
