// Runs the programs of a plan on one NVIDIA GPU, on one stream.
//
// The first run of a program queues its instructions one by one; then they are captured into a CUDA graph, which every later
// run replays. Recorded runs are replayed just so, where CUPTI is found. Three allocations are made before the first run and none
// after it: the two regions of the plan, and the workspace of library kernels together with the tables of kernels that take
// their arguments from one. (When a recording ends, memory is taken for a moment to measure roofs.)
#pragma once

#include "runtime/Executor.h"
#include "runtime/MemoryCheck.h"
#include "runtime/device/cuda/ProductTuning.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/CudnnAttention.h"
#include "runtime/device/cuda/CuptiRecorder.h"
#include "runtime/device/cuda/HostRing.h"
#include "runtime/device/cuda/KernelModules.h"

#include <variant>

namespace tapeout::rt {

class CudaExecutor final : public Executor {
public:
  /// See createExecutor. Memory starts as zeros.
  static Result<std::unique_ptr<CudaExecutor>> create(const Plan &plan, const CudaLibraries &libraries,
                                                      const ExecutorOptions &options);
  ~CudaExecutor() override;

  Status run(const plan::Program &program) override;
  Status startRecording() override;
  Result<Recording> finishRecording() override;
  unsigned runsAhead() const override { return checkMemory_ ? 0 : HostRing::kStages - 1; }
  Status wait(unsigned ago = 0) override;
  const void *scalar(uint32_t slot, unsigned ago = 0) const override { return ring_.scalar(runs_ - 1 - ago, slot); }
  Status write(uint32_t slot, FunctionRef<void(std::span<uint8_t>)> fill) override;
  Status clear(uint32_t slot) override;
  Result<SlotBytes> read(uint32_t slot) override;
  std::string description() const override;
  std::string architecture() const override;
  uint64_t memoryBytes() const override { return plan().persistentBytes() + plan().arenaBytes() + libraryBytes_; }
  uint64_t arenaResidentBytes() const override { return plan().arenaBytes(); }
  uint64_t arenaHighWater() const override { return highWater_; }

private:
  static constexpr uint64_t kGuardBytes = 4096; // behind the arena, for --check-memory

  struct Launch {
    CuFunction function;
    unsigned blocks, threads, sharedBytes;
    std::vector<CuDevicePointer> arguments;
    std::vector<CuTensorMap> tensorMaps;
  };
  struct Product {
    size_t index; // into products_
  };
  struct Attention {
    size_t index; // into attentions_
  };
  struct Copy {
    CuDevicePointer source, destination;
    uint64_t bytes;
  };
  using Instruction = std::variant<Launch, Product, Attention, Copy>;
  struct Prepared {
    const plan::Program *program;
    std::vector<Instruction> instructions;
    std::optional<MemoryCheck> check;
    bool hasRun = false;
    Owned<CuGraphExec> graph;
    std::vector<uint32_t> nodes; // of the graph by instruction, those that leave a record; only while runs are recorded
  };
  struct RecordedReplay {
    size_t run; // of recording_->runs, filled at the end
    const Prepared *prepared;
  };

  CudaExecutor(const Plan &plan, CudaDevice device, const ExecutorOptions &options, Result<Cupti> (*openCupti)())
      : Executor(plan, options.threads), device_(std::move(device)), driver_(device_.driver()),
        checkMemory_(options.checkMemory), openCupti_(openCupti) {}
  Status allocate();
  Status openLibrary(const CublasLt &library);
  Status openLibrary(const CudnnLibrary &library);
  Status prepare(const plan::Program &program);
  Result<Instruction> prepareInstruction(const plan::Instruction &instruction);
  Status prepareBias(const plan::Matmul &matmul, ProductOperands operands, TunedProduct &product);
  Result<Instruction> prepareAttention(const plan::Instruction &instruction);
  Result<Launch> prepareLaunch(const plan::Launch &launch);
  Status tune(const std::string &path);

  Status queue(const Launch &launch) const;
  Status queue(const CudnnAttention &attention) const;
  Status queue(const Prepared &prepared, size_t instruction);
  Status queueAll(const Prepared &prepared);
  Status observe(const Prepared &prepared);
  Status readEvents(const Prepared &prepared, std::chrono::steady_clock::time_point start);
  Status queueAndCount(Prepared &prepared);
  Status capture(Prepared &prepared);
  Status launchGraph(Prepared &prepared);
  Result<uint32_t> capturedNodes() const;
  void forgetGraphs();
  Status checkArena(const MemoryCheck &check);
  Status synchronize() { return driver_.check(driver_.streamSynchronize(stream_.get()), "a step on the GPU failed"); }
  CuDevicePointer address(uint32_t slot) const;
  CuDevicePointer use(uint32_t slot);

  CudaDevice device_; // goes last
  const CudaDriver &driver_;
  const bool checkMemory_;
  Owned<CuStream> stream_;
  Owned<CuDevicePointer> persistent_, arena_, library_; // library_: workspace, then argument tables
  uint64_t libraryBytes_ = 0, tableEnd_ = 0, highWater_ = 0;
  KernelModules modules_;
  CublasContext blas_;
  std::vector<TunedProduct> products_;
  CudnnContext dnn_;
  CudnnAttention::PlanCache attentionPlans_;
  std::vector<CudnnAttention> attentions_;
  std::string tuning_; // what was done, for the start line
  HostRing ring_;
  uint64_t runs_ = 0;
  std::vector<Prepared> programs_;
  Result<Cupti> (*openCupti_)();
  std::optional<Recording> recording_;      // while runs are recorded
  std::unique_ptr<CuptiRecorder> recorder_; // then, where there is CUPTI
  std::vector<RecordedReplay> replays_;
  std::vector<Owned<CuEvent>> traceEvents_; // where there is none
};

} // namespace tapeout::rt
