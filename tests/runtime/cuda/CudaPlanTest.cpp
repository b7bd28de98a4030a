// Plan::load refuses hostile plans for cuda before anything of them reaches the driver.
#include "runtime/Plan.h"
#include "tests/runtime/TestPlans.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <random>

namespace tapeout::rt {
namespace {

using namespace test;

plan::GpuKernelT &gpuOf(plan::PlanT &plan) { return *plan.kernels[0]->gpu; }
std::vector<uint8_t> &cubinOf(plan::PlanT &plan) { return plan.modules[0]->cubins[0]->bytes; }
plan::MatmulT &matmulOf(plan::PlanT &plan) { return *plan.programs[0]->instructions[0]->body.AsMatmul(); }
void setElf(plan::PlanT &plan, size_t at, auto value) { std::memcpy(cubinOf(plan).data() + at, &value, sizeof value); }

void addEpilogue(plan::PlanT &plan) { // difference: (prediction, y) -> difference
  plan::MatmulT &matmul = matmulOf(plan);
  matmul.epilogue = std::make_unique<plan::LaunchT>();
  matmul.epilogue->arguments = {matmul.c, slotIndex(plan, "labels"), matmul.c};
}

/// The first kernel, (prediction, y) -> difference, takes a tensor map of y, which becomes a matrix [16, 64] of BF16.
plan::TensorMapT &addTensorMap(plan::PlanT &plan) {
  plan::SlotT &y = *plan.slots[slotIndex(plan, "labels")];
  y.element_type = plan::ElementType::BF16;
  y.shape = {16, 64};
  y.bytes = 2048;
  y.offset = (plan.persistent_bytes + 63) / 64 * 64;
  plan.persistent_bytes = y.offset + y.bytes;
  auto map = std::make_unique<plan::TensorMapT>();
  map->argument = 1;
  map->rows = 16;
  map->columns = map->row_stride = map->box_columns = 64;
  map->box_rows = 256;
  gpuOf(plan).tensor_maps.push_back(std::move(map));
  return *gpuOf(plan).tensor_maps.back();
}

struct HostileCase {
  const char *name;
  std::function<void(plan::PlanT &)> damage;
  const char *message;
};

const std::vector<HostileCase> kCases = {
    {"NoModule", [](auto &p) { p.modules.clear(); }, "lies in no module"},
    {"ModuleIndex", [](auto &p) { gpuOf(p).module_ = 1; }, "lies in no module"},
    {"BiasWithoutEpilogue", [](auto &p) { matmulOf(p).bias = true; }, "has a bias but no kernel that adds it"},
    {"EpilogueOfNoBias", [](auto &p) { addEpilogue(p); }, "has an epilogue that is no bias"},
    {"NoGpu", [](auto &p) { p.kernels[0]->gpu.reset(); }, "lies in no module"},
    {"Blocks", [](auto &p) { gpuOf(p).blocks = 0; }, "0 blocks"},
    {"ManyBlocks", [](auto &p) { gpuOf(p).blocks = UINT32_MAX; }, "4294967295 blocks"},
    {"Threads", [](auto &p) { gpuOf(p).threads = 1025; }, "of 1025 threads"},
    {"Shared", [](auto &p) { gpuOf(p).shared_bytes = 300 << 10; }, "bytes of shared memory"},
    {"Workspace", [](auto &p) { p.workspace_bytes = UINT64_MAX; }, "bytes of workspace"},
    {"EmptyModule", [](auto &p) { p.modules[0] = std::make_unique<plan::KernelModuleT>(); }, "module 0 is empty"},
    {"PtxZero", [](auto &p) { p.modules[0]->ptx = std::string("a\0b", 3); }, "a zero inside"},
    {"Architecture", [](auto &p) { p.modules[0]->cubins[0]->architecture = 0; }, "architecture 0"},
    {"ArchitectureTwice", [](auto &p) { p.modules[0]->cubins[1]->architecture = 90; }, "given twice"},
    {"CubinEmpty", [](auto &p) { cubinOf(p).clear(); }, "no ELF file"},
    {"CubinShort", [](auto &p) { cubinOf(p).resize(63); }, "no ELF file"},
    {"CubinMagic", [](auto &p) { cubinOf(p)[0] = 0; }, "no ELF file"},
    {"CubinMachine", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_machine), uint16_t(EM_X86_64)); }, "no ELF file"},
    {"CubinSections", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_shnum), uint16_t(2)); }, "no ELF file"},
    {"CubinSectionsWrap", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_shoff), ~uint64_t(0)); }, "no ELF file"},
    {"CubinSegments", [](auto &p) { setElf(p, offsetof(Elf64_Ehdr, e_phoff), uint64_t(66)); }, "no ELF file"},
    {"CubinSectionOutside",
     [](auto &p) {
       cubinOf(p).resize(sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr));
       setElf(p, offsetof(Elf64_Ehdr, e_shoff), uint64_t(sizeof(Elf64_Ehdr)));
       setElf(p, offsetof(Elf64_Ehdr, e_shnum), uint16_t(1));
       setElf(p, sizeof(Elf64_Ehdr) + offsetof(Elf64_Shdr, sh_type), uint32_t(SHT_PROGBITS));
       setElf(p, sizeof(Elf64_Ehdr) + offsetof(Elf64_Shdr, sh_size), uint64_t(1) << 40);
     },
     "no ELF file"},
    {"ManyArguments",
     [](auto &p) {
       p.kernels[0]->argument_count = 513;
       p.programs[0]->instructions[1]->body.AsLaunch()->arguments.resize(513, slotIndex(p, "difference"));
     },
     "513 arguments"},
    {"Epilogue",
     [](auto &p) {
       matmulOf(p).epilogue = std::make_unique<plan::LaunchT>();
       matmulOf(p).epilogue->arguments = {matmulOf(p).c};
     },
     "has an epilogue"},
    {"MatmulTypes", [](auto &p) { p.slots[slotIndex(p, "x")]->element_type = plan::ElementType::I32; }, "is of i32, f32 and f32"},
    {"MatmulMixed",
     [](auto &p) {
       p.slots[slotIndex(p, "x")]->element_type = plan::ElementType::BF16;
     },
     "is of bf16, f32 and f32"},
    {"MatmulStrides",
     [](auto &p) {
       matmulOf(p).k = 2, matmulOf(p).a_column_stride = 4, matmulOf(p).a_row_stride = 2;
     },
     "no contiguous dimension"},
    {"MapWithTable",
     [](auto &p) {
       addTensorMap(p);
       gpuOf(p).argument_table = true;
     },
     "takes tensor maps and a table of arguments"},
    {"ManyMaps", // 3 pointers, then 32 times 128 bytes
     [](auto &p) {
       plan::TensorMapT map = addTensorMap(p);
       while (gpuOf(p).tensor_maps.size() < 32)
         gpuOf(p).tensor_maps.push_back(std::make_unique<plan::TensorMapT>(map));
     },
     "4160 bytes of parameters"},
    {"MapArgument", [](auto &p) { addTensorMap(p).argument = 3; }, "argument 3, which does not exist"},
    {"MapRows", [](auto &p) { addTensorMap(p).rows = 0; }, "of 0 rows and 64 columns, out of range"},
    {"MapNegativeRows", [](auto &p) { addTensorMap(p).rows = -1; }, "of -1 rows"},
    {"MapManyRows", [](auto &p) { addTensorMap(p).rows = (int64_t(1) << 32) + 1; }, "of 4294967297 rows"},
    {"MapColumns", [](auto &p) { addTensorMap(p).columns = 0; }, "0 columns, out of range"},
    {"MapManyColumns", [](auto &p) { addTensorMap(p).columns = INT64_MAX; }, "9223372036854775807 columns"},
    {"MapRowStride", [](auto &p) { addTensorMap(p).row_stride = 56; }, "whose rows of 64 elements lie 56 apart"},
    {"MapNegativeRowStride", [](auto &p) { addTensorMap(p).row_stride = -64; }, "lie -64 apart"},
    {"MapBoxRows", [](auto &p) { addTensorMap(p).box_rows = 0; }, "boxes of 0 rows"},
    {"MapManyBoxRows", [](auto &p) { addTensorMap(p).box_rows = 257; }, "boxes of 257 rows"},
    {"MapType",
     [](auto &p) {
       addTensorMap(p);
       p.slots[slotIndex(p, "labels")]->element_type = plan::ElementType::I32;
       p.slots[slotIndex(p, "labels")]->shape = {16, 32};
     },
     "whose type I32 no tensor map has"},
    {"MapBoxColumns", [](auto &p) { addTensorMap(p).box_columns = 32; }, "boxes of 32 columns instead of 64"},
    {"MapRowStrideFar", [](auto &p) { addTensorMap(p).row_stride = int64_t(1) << 39; }, "apart, too far"},
    {"MapRowStrideWraps", [](auto &p) { addTensorMap(p).row_stride = INT64_MAX; }, "apart, too far"},
    {"MapRowStrideUnaligned",
     [](auto &p) {
       plan::TensorMapT &map = addTensorMap(p);
       map.rows = 2;
       map.row_stride = 68;
     },
     "lie 68 elements apart, no multiple of 16 bytes"},
    {"MapLeavesSlot", [](auto &p) { addTensorMap(p).rows = 17; }, "leaves 'labels'"},
    {"MapColumnsLeaveSlot",
     [](auto &p) {
       plan::TensorMapT &map = addTensorMap(p);
       map.rows = 1;
       map.columns = map.row_stride = 1032;
     },
     "leaves 'labels'"},
    {"MapOffsetLeavesSlot", [](auto &p) { addTensorMap(p).offset = 8; }, "leaves 'labels'"},
    {"MapNegativeOffset", [](auto &p) { addTensorMap(p).offset = -8; }, "leaves 'labels'"},
    {"MapOffsetWraps",
     [](auto &p) {
       plan::TensorMapT &map = addTensorMap(p);
       map.offset = INT64_MAX;
     },
     "leaves 'labels'"},
    {"MapRowsWrap", // (2^32 - 1) 2^38 elements are about 2^70
     [](auto &p) {
       plan::TensorMapT &map = addTensorMap(p);
       map.rows = int64_t(1) << 32;
       map.row_stride = int64_t(1) << 38;
     },
     "leaves 'labels'"},
    {"MapOffsetUnaligned",
     [](auto &p) {
       plan::TensorMapT &map = addTensorMap(p);
       map.rows = 15;
       map.offset = 4;
     },
     "begins 4 elements into 'labels', no multiple of 16 bytes"},
    {"Window", [](auto &p) { p.programs[0]->instructions[0]->body.Set(plan::WindowT()); }, "do not run on cuda"},
};

TEST(CudaPlan, TakesAGoodPlan) {
  Result<Plan> plan = Plan::load(serialize(cudaRegressionPlan()));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

TEST(CudaPlan, TakesTensorMapsToTheLastElement) {
  plan::PlanT plan = cudaRegressionPlan();
  plan::TensorMapT &map = addTensorMap(plan);
  map.offset = 32;
  map.columns = 32;
  Result<Plan> loaded = Plan::load(serialize(plan));
  EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
  while (gpuOf(plan).tensor_maps.size() < 31) // as many as fit behind three pointers
    gpuOf(plan).tensor_maps.push_back(std::make_unique<plan::TensorMapT>(map));
  loaded = Plan::load(serialize(plan));
  EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
}

TEST(CudaPlan, RefusesHostilePlans) {
  for (const HostileCase &hostile : kCases) {
    SCOPED_TRACE(hostile.name);
    plan::PlanT plan = cudaRegressionPlan();
    hostile.damage(plan);
    Result<Plan> loaded = Plan::load(serialize(plan));
    ASSERT_FALSE(loaded.isOk());
    EXPECT_EQ(loaded.status().code(), ExitCode::BadData);
    EXPECT_NE(loaded.status().message().find(hostile.message), std::string::npos) << loaded.status().message();
  }
}

TEST(CudaPlan, SurvivesBitFlips) {
  plan::PlanT source = cudaRegressionPlan();
  addTensorMap(source);
  const std::vector<uint8_t> good = serialize(source);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int flips = 1 + i % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= 1 << random() % 8;
    refused += !Plan::load(bytes).isOk();
  }
  EXPECT_GT(refused, 500);
}

} // namespace
} // namespace tapeout::rt
