// Kernels that take tensor maps, on a fake GPU: what the driver is asked for, and what the kernels get.
#include "tests/runtime/cuda/FakeDevice.h"

namespace tapeout::rt {
namespace {

using namespace test;

class TensorMaps : public testing::Test {
protected:
  void SetUp() override { resetFakeCuda(); }
};

/// cudaRegressionPlan, whose first kernel, (prediction, labels) -> difference, takes a map of its result and one of the
/// labels, which have the type `type`.
plan::PlanT mappedPlan(plan::ElementType type = plan::ElementType::F32) {
  plan::PlanT plan = cudaRegressionPlan();
  plan::SlotT &labels = *plan.slots[slotIndex(plan, "labels")];
  if (type != plan::ElementType::F32) {
    labels.element_type = type;
    labels.shape = {32};
  }
  plan.kernels[0]->symbol = "difference_mapped";
  auto &maps = plan.kernels[0]->gpu->tensor_maps;
  auto add = [&](uint32_t argument, int64_t offset, int64_t rows, int64_t columns, int64_t rowStride, uint32_t boxRows,
                 uint32_t boxColumns) {
    plan::TensorMapT map;
    map.argument = argument;
    map.offset = offset;
    map.rows = rows;
    map.columns = columns;
    map.row_stride = rowStride;
    map.box_rows = boxRows;
    map.box_columns = boxColumns;
    maps.push_back(std::make_unique<plan::TensorMapT>(map));
  };
  add(2, 4, 2, 3, 8, 64, 32); // difference
  add(1, 0, 2, 5, 8, 128, type == plan::ElementType::F32 ? 32 : 64);
  return plan;
}

TEST_F(TensorMaps, ArriveBehindThePointersInEveryRun) {
  CudaMachine machine(mappedPlan());
  ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
  EXPECT_EQ(fakeCuda().calls["cuTensorMapEncodeTiled"], 4) << "once for each launch, of which the programs have two";
  ASSERT_TRUE(machine.fillInputs().isOk());
  for (int run = 0; run < 3; ++run) { // the later ones replay a graph
    fakeCuda().tensorMaps.clear();
    ASSERT_TRUE(machine.step().isOk() && machine.executor->wait().isOk());
    ASSERT_EQ(fakeCuda().tensorMaps.size(), 1u) << run;
    const FakeTensorMap &difference = fakeCuda().tensorMaps[0][0], &labels = fakeCuda().tensorMaps[0][1];
    // By cuda.h: FLOAT32, two dimensions, columns first, strides in bytes; no interleave, SWIZZLE_128B, L2_256B, zeros.
    EXPECT_EQ(difference, (FakeTensorMap{7, 2, difference.address, {3, 2}, 32, {32, 64}, {1, 1}, 0, 3, 3, 0}));
    EXPECT_EQ(labels, (FakeTensorMap{7, 2, labels.address, {5, 2}, 32, {32, 128}, {1, 1}, 0, 3, 3, 0}));
    EXPECT_EQ(*static_cast<float *>(difference.address), machine.floats("difference")[4]);
    EXPECT_EQ(*static_cast<float *>(labels.address), machine.floats("labels")[0]);
  }
  EXPECT_EQ(fakeCuda().calls["cuTensorMapEncodeTiled"], 4);
}

TEST_F(TensorMaps, HaveTheTypeOfTheirSlot) {
  for (auto [type, number] : {std::pair(plan::ElementType::F16, 6), std::pair(plan::ElementType::BF16, 9)}) {
    resetFakeCuda();
    CudaMachine machine(mappedPlan(type));
    ASSERT_TRUE(machine.status.isOk()) << machine.status.message();
    ASSERT_TRUE(machine.step().isOk() && machine.executor->wait().isOk());
    const FakeTensorMap &labels = fakeCuda().tensorMaps.at(0)[1];
    EXPECT_EQ(labels, (FakeTensorMap{number, 2, labels.address, {5, 2}, 16, {64, 128}, {1, 1}, 0, 3, 3, 0}));
  }
}

TEST_F(TensorMaps, WantADriverThatHasThem) {
  CudaLibraries libraries = fakeLibraries();
  libraries.driver.tensorMapEncodeTiled = nullptr;
  auto statusOf = [&](const plan::PlanT &source) {
    Plan plan = std::move(*Plan::load(serialize(source)));
    Result<std::unique_ptr<CudaExecutor>> executor = CudaExecutor::create(plan, libraries, {.threads = 1});
    return executor.isOk() ? Status::ok() : executor.status();
  };
  EXPECT_TRUE(statusOf(cudaRegressionPlan()).isOk()) << "other plans want none";
  fakeCuda().allocations.clear();
  Status status = statusOf(mappedPlan());
  EXPECT_EQ(status.code(), ExitCode::Unavailable);
  EXPECT_EQ(status.message(), "the NVIDIA driver has no tensor maps, which the kernel 'difference_mapped' of this "
                              "executable takes; install a driver of CUDA 12.0 or a newer one");
  EXPECT_TRUE(fakeCuda().allocations.empty());
}

TEST_F(TensorMaps, FailuresNameTheTensor) {
  fakeCuda().failingCall = "cuTensorMapEncodeTiled";
  CudaMachine machine(mappedPlan());
  EXPECT_EQ(machine.status.message(), "a tensor map of 'difference': out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
  EXPECT_EQ(fakeCuda().liveObjects, 0);
}

} // namespace
} // namespace tapeout::rt
