// What the instructions of each schedule are, as far as speed and equal bits depend on them.
#include "codegen/cuda/CudaCodegen.h"
#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "tests/codegen/cuda/TensorMapKernel.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <regex>

namespace tapeout::codegen {
namespace {

/// The PTX of the kernels, which are to be compiled with the rest of a plan.
std::string ptxOf(const std::string &kernels, unsigned architecture = 90, bool approximate = false) {
  mlir::MLIRContext context;
  context.loadDialect<tape::TapeDialect, plan::PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kernels, &context);
  EXPECT_TRUE(module);
  CudaOptions options;
  options.architectures = {architecture};
  options.assemble = false;
  auto compiled = compileCudaKernels(*module, options);
  EXPECT_TRUE(succeeded(compiled));
  std::string ptx;
  for (const CudaKernels &part : compiled->modules) {
    EXPECT_TRUE(part.cubins.empty());
    ptx += part.ptx;
  }
  EXPECT_EQ(ptx.find(".local"), std::string::npos) << "memory of a thread besides its registers";
  EXPECT_EQ(ptx.find("atom"), std::string::npos);
  EXPECT_FALSE(std::regex_search(ptx, std::regex("\\bred\\.(global|shared)"))) << "atomics";
  EXPECT_EQ(std::regex_search(ptx, std::regex("\\.ftz|\\.approx")), approximate) << "IEEE arithmetic, or not";
  EXPECT_FALSE(std::regex_search(ptx, std::regex("\\t(ld|st)\\.(v[24]\\.)?[bfsu](16|32|64)"))) << "an unknown address space";
  return ptx;
}

size_t count(const std::string &ptx, const std::string &pattern) {
  std::regex regex(pattern);
  return std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), regex), std::sregex_iterator());
}

TEST(PtxTest, ElementwiseKernelsMoveSixteenBytesAtOnce) {
  std::string ptx = ptxOf(R"(
plan.kernel @k { ^bb0(%a: tensor<4096x4096xf32>, %b: tensor<4096xf32>):
  %c = tape.broadcast_in_dim %b to [4096, 4096] dims [1] : tensor<4096xf32>
  %d = tape.add %a, %c : tensor<4096x4096xf32>, tensor<4096x4096xf32>
  tape.yield %d : tensor<4096x4096xf32> })");
  EXPECT_NE(ptx.find(".visible .entry k("), std::string::npos);
  EXPECT_NE(ptx.find(".maxntid 256"), std::string::npos);
  EXPECT_EQ(count(ptx, "ld\\.global\\.nc\\.v4\\.f32"), 8u); // four vectors of each
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.f32"), 4u);
  EXPECT_EQ(count(ptx, "(ld|st)\\.global(\\.nc)?\\.f32"), 0u);
  EXPECT_LT(ptx.rfind("ld.global"), ptx.find("st.global")) << "a read behind a write waits for it";
  EXPECT_EQ(count(ptx, "add\\.rn\\.f32"), 16u);
  EXPECT_EQ(count(ptx, "div\\.|rem\\."), 0u) << "indices without divisions";
}

TEST(PtxTest, OperandsThatAreOverwrittenAreNotReadAsConstants) {
  std::string ptx = ptxOf(R"(
%s = plan.slot "arena" "s" tensor<4096x256xf32> at 0
%t = plan.slot "arena" "t" tensor<4096x256xf32> at 4194304
plan.program @step inputs [] () outputs [] () {
  plan.launch @k (%s, %t) -> (%s)
}
plan.kernel @k { ^bb0(%a: tensor<4096x256xf32>, %b: tensor<4096x256xf32>):
  %d = tape.add %a, %b : tensor<4096x256xf32>, tensor<4096x256xf32>
  tape.yield %d : tensor<4096x256xf32> })");
  EXPECT_EQ(count(ptx, "ld\\.global\\.v4"), count(ptx, "ld\\.global\\.nc\\.v4"));
  EXPECT_GT(count(ptx, "ld\\.global\\.v4"), 0u);
}

TEST(PtxTest, HalfPrecisionMovesEightElementsAtOnce) {
  std::string text = R"(
plan.kernel @k { ^bb0(%a: tensor<4096x4096xbf16>):
  %d = tape.convert %a to f32 : tensor<4096x4096xbf16>
  %e = tape.exp %d : tensor<4096x4096xf32>
  %f = tape.convert %e to bf16 : tensor<4096x4096xf32>
  tape.yield %f : tensor<4096x4096xbf16> })";
  for (unsigned architecture : {80, 90}) {
    std::string ptx = ptxOf(text, architecture, /*approximate=*/true);
    EXPECT_EQ(count(ptx, "ex2\\.approx\\.ftz\\.f32"), 8 * count(ptx, "st\\.global\\.v4")) << "results of 16 bits";
    EXPECT_GT(count(ptx, "ld\\.global\\.nc\\.v4"), 0u);
    EXPECT_EQ(count(ptx, "ld\\.global\\.nc\\.v4"), count(ptx, "st\\.global\\.v4"));
    EXPECT_EQ(count(ptx, "st\\.global\\.[bu]"), 0u);
    EXPECT_GT(count(ptx, "cvt\\.rn\\.bf16"), 0u) << "rounded by the instruction";
  }
}

TEST(PtxTest, RowsStayInRegisters) {
  std::string ptx = ptxOf(R"(
plan.kernel @softmax { ^bb0(%x: tensor<8192x1024xf32>):
  %m = tape.reduce "max" %x over [1] : tensor<8192x1024xf32>
  %mb = tape.broadcast_in_dim %m to [8192, 1024] dims [0] : tensor<8192xf32>
  %d = tape.subtract %x, %mb : tensor<8192x1024xf32>, tensor<8192x1024xf32>
  %e = tape.exp %d : tensor<8192x1024xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<8192x1024xf32>
  %sb = tape.broadcast_in_dim %s to [8192, 1024] dims [0] : tensor<8192xf32>
  %y = tape.divide %e, %sb : tensor<8192x1024xf32>, tensor<8192x1024xf32>
  tape.yield %y : tensor<8192x1024xf32> })");
  EXPECT_EQ(count(ptx, "ld\\.global"), 8u) << "32 elements of the row, once";
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.f32"), 8u);
  EXPECT_EQ(count(ptx, "shfl\\.sync\\.bfly"), 10u); // two sums over a warp
  EXPECT_EQ(count(ptx, "bar\\.sync"), 0u) << "a row of a warp needs none";
}

TEST(PtxTest, LongRowsAreReadAgainAndExchangeThroughSharedMemory) {
  std::string ptx = ptxOf(R"(
plan.kernel @lse { ^bb0(%x: tensor<4096x60257xf32>):
  %m = tape.reduce "max" %x over [1] : tensor<4096x60257xf32>
  %mb = tape.broadcast_in_dim %m to [4096, 60257] dims [0] : tensor<4096xf32>
  %d = tape.subtract %x, %mb : tensor<4096x60257xf32>, tensor<4096x60257xf32>
  %e = tape.exp %d : tensor<4096x60257xf32>
  %s = tape.reduce "sum" %e over [1] : tensor<4096x60257xf32>
  tape.yield %s : tensor<4096xf32> })");
  EXPECT_NE(ptx.find(".maxntid 1024"), std::string::npos) << "few rows at a time, which stay in the cache";
  EXPECT_EQ(count(ptx, "bar\\.sync"), 2u);
  EXPECT_GT(count(ptx, "ld\\.shared"), 0u);
}

TEST(PtxTest, LongRowsOf16BitsAreReadOnce) {
  std::string ptx = ptxOf(R"(
plan.kernel @lse { ^bb0(%x: tensor<4096x50304xbf16>):
  %w = tape.convert %x to f32 : tensor<4096x50304xbf16>
  %m = tape.reduce "max" %w over [1] : tensor<4096x50304xf32>
  %mb = tape.broadcast_in_dim %m to [4096, 50304] dims [0] : tensor<4096xf32>
  %d = tape.subtract %w, %mb : tensor<4096x50304xf32>, tensor<4096x50304xf32>
  %s = tape.reduce "sum" %d over [1] : tensor<4096x50304xf32>
  tape.yield %s : tensor<4096xf32> })");
  EXPECT_NE(ptx.find(".extern .shared"), std::string::npos) << "memory that the launch asks for";
  EXPECT_NE(ptx.find(".maxntid 512"), std::string::npos) << "two blocks to a processor";
  EXPECT_EQ(count(ptx, "ld\\.global"), 0u);
  EXPECT_EQ(count(ptx, "cp\\.async\\.cg\\.shared\\.global[^;]* 16;"), 6u) << "of the first row and of the next one";
  EXPECT_EQ(count(ptx, "ld\\.shared\\.v4"), 6u) << "in each pass two vectors, then the last one";
  EXPECT_EQ(count(ptx, "bar\\.sync"), 2u) << "as many as reductions";
}

TEST(PtxTest, OnlyLargeTensorsHaveIndicesOf64Bits) {
  auto multiplications = [](int64_t rows) {
    std::string text = R"(
plan.kernel @rows { ^bb0(%x: tensor<$x50257xf32>, %b: tensor<$xf32>):
  %c = tape.broadcast_in_dim %b to [$, 50257] dims [0] : tensor<$xf32>
  %y = tape.multiply %x, %c : tensor<$x50257xf32>, tensor<$x50257xf32>
  tape.yield %y : tensor<$x50257xf32> })";
    for (size_t at; (at = text.find('$')) != std::string::npos;)
      text.replace(at, 1, std::to_string(rows));
    return count(ptxOf(text), "(mul|mad)\\.(lo|hi)\\.[su]64");
  };
  EXPECT_EQ(multiplications(4096), 0u);
  EXPECT_GT(multiplications(65536), 0u);
}

TEST(PtxTest, ColumnsAreSummedByManyThreads) {
  std::string ptx = ptxOf(R"(
plan.kernel @bias { ^bb0(%x: tensor<64x1024x768xf32>):
  %r = tape.reduce "sum" %x over [1] : tensor<64x1024x768xf32>
  tape.yield %r : tensor<64x768xf32> })");
  EXPECT_NE(ptx.find(".maxntid 256"), std::string::npos);
  EXPECT_EQ(count(ptx, "ld\\.global\\.nc\\.v4\\.f32"), 16u);
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.f32"), 1u);
  EXPECT_EQ(count(ptx, "bar\\.sync"), 3u); // 8, 4, 2 rows
}

TEST(PtxTest, FourElementsOf16BitsAreReadAndWrittenAtOnce) {
  std::string ptx = ptxOf(R"(
plan.kernel @bias { ^bb0(%x: tensor<64x1024x768xbf16>):
  %w = tape.convert %x to f32 : tensor<64x1024x768xbf16>
  %r = tape.reduce "sum" %w over [1] : tensor<64x1024x768xf32>
  tape.yield %r : tensor<64x768xf32> }
plan.kernel @narrow { ^bb0(%x: tensor<64x1024x768xf32>):
  %r = tape.convert %x to bf16 : tensor<64x1024x768xf32>
  tape.yield %r : tensor<64x1024x768xbf16> })");
  EXPECT_EQ(count(ptx, "ld\\.global\\.nc\\.v2\\.[bu]32"), 16u);
  EXPECT_EQ(count(ptx, "ld\\.global\\.nc\\.v4\\.f32"), 4u);
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.b16"), 4u);
  EXPECT_EQ(count(ptx, "ld\\.global"), 20u);
}

// The gradient of a normalisation with its parameters' and a bias's.
TEST(PtxTest, BandsOfTheLongestRowsFitIntoSharedMemory) {
  std::string ptx = ptxOf(R"(
plan.kernel @bands { ^bb0(%x: tensor<1024x4096xf32>, %y: tensor<1024x4096xf32>):
  %p = tape.multiply %x, %y : tensor<1024x4096xf32>, tensor<1024x4096xf32>
  %s = tape.reduce "sum" %p over [1] : tensor<1024x4096xf32>
  %t = tape.broadcast_in_dim %s to [1024, 4096] dims [0] : tensor<1024xf32>
  %z = tape.subtract %x, %t : tensor<1024x4096xf32>, tensor<1024x4096xf32>
  %c = tape.reshape %p to [128, 8, 4096] : tensor<1024x4096xf32>
  %d = tape.reshape %y to [128, 8, 4096] : tensor<1024x4096xf32>
  %e = tape.reshape %z to [128, 8, 4096] : tensor<1024x4096xf32>
  %a = tape.reduce "sum" %c over [1] : tensor<128x8x4096xf32>
  %b = tape.reduce "sum" %d over [1] : tensor<128x8x4096xf32>
  %g = tape.reduce "sum" %e over [1] : tensor<128x8x4096xf32>
  tape.yield %z, %a, %b, %g : tensor<1024x4096xf32>, tensor<128x4096xf32>, tensor<128x4096xf32>, tensor<128x4096xf32> })");
  const std::regex array(R"(\.shared[^;]*\[(\d+)\])");
  int64_t bytes = 0;
  for (std::sregex_iterator found(ptx.begin(), ptx.end(), array), end; found != end; ++found)
    bytes += std::stoll((*found)[1]);
  EXPECT_GT(bytes, 0);
  EXPECT_LE(bytes, 48 * 1024);
}

TEST(PtxTest, TransposesGoThroughSharedMemory) {
  std::string ptx = ptxOf(R"(
plan.kernel @t { ^bb0(%x: tensor<512x1024xf32>):
  %r = tape.transpose %x by [1, 0] : tensor<512x1024xf32>
  tape.yield %r : tensor<1024x512xf32> })");
  EXPECT_EQ(count(ptx, "st\\.shared"), 4u);
  EXPECT_EQ(count(ptx, "ld\\.shared"), 4u);
  EXPECT_EQ(count(ptx, "bar\\.sync"), 1u);
}

// The hardware reads a tensor map where the launch put it: in memory of a thread it would find nothing.
TEST(PtxTest, TensorMapsStayParameters) {
  std::string ptx = tensorMapPtx();
  EXPECT_EQ(count(ptx, "\\.param \\.align 64 \\.b8 mapped_param_[12]\\[128\\]"), 2u) << ptx;
  EXPECT_EQ(count(ptx, "cvta\\.param\\.u64"), 2u) << ptx;
  EXPECT_EQ(count(ptx, "\\.local"), 0u) << ptx;
}

TEST(PtxTest, GradientsOfAttentionAreProductsOfHopperGpus) {
  std::string text = R"(
plan.kernel @of_query { ^bb0(%q: HEADS, %k: HEADS, %v: HEADS, %y: HEADS, %lse: tensor<2x3x200xf32>, %d: HEADS):
  %dq, %rows = tape.attention_query_gradient %q, %k, %v, %y, %lse, %d scale 0.125 {causal = true,
      places = array<i64: PLACE, PLACE, PLACE, PLACE, PLACE, PLACE>}
    : HEADS, HEADS, HEADS, HEADS, tensor<2x3x200xf32>, HEADS
  tape.yield %dq, %rows : HEADS, tensor<2x2x3x200xf32> }
plan.kernel @of_keys { ^bb0(%q: HEADS, %k: HEADS, %v: HEADS, %d: HEADS, %rows: tensor<2x2x3x200xf32>):
  %dk, %dv, %ks, %vs = tape.attention_key_gradients %q, %k, %v, %d, %rows scale 0.125 {causal = true, sums,
      places = array<i64: PLACE, PLACE, PLACE, PLACE, PLACE, PLACE, PLACE, PLACE>}
    : HEADS, HEADS, HEADS, HEADS, tensor<2x2x3x200xf32>
  tape.yield %dk, %dv, %ks, %vs : HEADS, HEADS, tensor<2x4x3x64xf32>, tensor<2x4x3x64xf32> })";
  auto replace = [&](const std::string &what, const std::string &by) {
    text = std::regex_replace(text, std::regex(what), by);
  };
  replace("PLACE", "0, 38400, 192, 64");
  for (std::string type : {"bf16", "f16"}) {
    replace("HEADS|tensor<2x200x3x64xbf16>", "tensor<2x200x3x64x" + type + ">");
    std::string ptx = ptxOf(text, 90, /*approximate=*/true);
    EXPECT_EQ(count(ptx, "\\.target sm_90a"), 2u) << "a module for each";
    EXPECT_EQ(count(ptx, "\\.visible \\.entry of_(query|keys)\\("), 2u);
    EXPECT_EQ(count(ptx, "\\.maxntid 384"), 2u);
    EXPECT_GT(count(ptx, "wgmma\\.mma_async\\.sync\\.aligned\\.m64n64k16\\.f32\\." + type), 0u);
    EXPECT_GT(count(ptx, "cp\\.async\\.cg\\.shared\\.global"), 0u);
    EXPECT_EQ(count(ptx, "tapeoutAttentionSizes"), 0u) << "sizes are constants of the kernel";
  }
}

TEST(PtxTest, ManyTensorsAreFoundByTheThreadsOfAWarp) {
  std::string ptx = ptxOf(R"(
plan.kernel @update attributes {tensors = 2 : i64} {
^bb0(%a: tensor<100x64xf32>, %b: tensor<100x64xf32>, %c: tensor<30xf32>, %d: tensor<30xf32>):
  %e = tape.add %a, %b : tensor<100x64xf32>, tensor<100x64xf32>
  %f = tape.add %c, %d : tensor<30xf32>, tensor<30xf32>
  tape.yield %e, %f : tensor<100x64xf32>, tensor<30xf32> })");
  EXPECT_EQ(count(ptx, "\\.param \\.u64"), 1u) << "a table of arguments";
  EXPECT_EQ(count(ptx, "vote\\.sync\\.ballot"), 1u);
  EXPECT_EQ(count(ptx, "ld\\.global\\.v4\\.f32"), 16u) << "of whole blocks and of last ones";
  EXPECT_EQ(count(ptx, "st\\.global\\.v4\\.f32"), 8u);
}

} // namespace
} // namespace tapeout::codegen
