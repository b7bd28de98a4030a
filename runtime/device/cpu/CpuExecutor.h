// Runs the programs of a plan on the processor.
//
// Every program is prepared once into a flat array of instructions with resolved addresses; a run is one loop over it.
// The bits of a result depend on neither the number of threads nor the instruction set.
#pragma once

#include "runtime/Arena.h"
#include "runtime/Executor.h"
#include "runtime/MemoryCheck.h"
#include "runtime/device/cpu/Convolution.h"
#include "runtime/device/cpu/KernelLibrary.h"
#include "runtime/device/cpu/LowPrecisionGemm.h"

#include <variant>

namespace tapeout::rt {

class CpuExecutor final : public Executor {
public:
  /// See createExecutor.
  static Result<std::unique_ptr<CpuExecutor>> create(const Plan &plan, std::span<const uint8_t> kernels,
                                                     const ExecutorOptions &options);

  Status run(const plan::Program &program) override;
  Status startRecording() override;
  Result<Recording> finishRecording() override;
  unsigned runsAhead() const override { return 0; }
  Status wait(unsigned ago = 0) override { return Status::ok(); }
  const void *scalar(uint32_t slot, unsigned ago = 0) const override { return address(slot); }
  Status write(uint32_t slot, FunctionRef<void(std::span<uint8_t>)> fill) override;
  Status clear(uint32_t slot) override;
  Result<SlotBytes> read(uint32_t slot) override;
  std::string description() const override;
  std::string architecture() const override { return isa_ == CpuIsa::Avx512 ? "avx512" : "avx2"; }
  uint64_t memoryBytes() const override { return plan().arenaBytes(); }
  uint64_t arenaResidentBytes() const override { return arena_.transient().residentBytes(); }
  uint64_t arenaHighWater() const override { return arena_.highWater(); }

  uint8_t *address(uint32_t slot) const { return arena_.address(plan().slot(slot)); }

private:
  struct Launch {
    KernelFunction function;
    size_t firstArgument; // into Prepared::arguments
    int64_t units, grain;
  };
  struct Matmul {
    GemmProblem problem;
    GemmTypes types;
    const void *a, *b;
    void *c;
    std::optional<Launch> epilogue;
  };
  struct Window {
    plan::WindowFunction function;
    ConvolutionShape shape;
    int64_t parts;
    void *arguments[3];
  };
  struct Copy {
    const uint8_t *source;
    uint8_t *destination;
    int64_t bytes;
  };
  using Instruction = std::variant<Launch, Matmul, Window, Copy>;
  struct Prepared {
    const plan::Program *program;
    std::vector<Instruction> instructions;
    std::vector<void *> arguments;
    std::optional<MemoryCheck> check;
  };

  CpuExecutor(const Plan &plan, Arena arena, CpuIsa isa, int threads)
      : Executor(plan, threads), arena_(std::move(arena)), isa_(isa) {}
  Status resolveKernels(std::span<const uint8_t> kernels);
  Status prepare(const plan::Program &program, bool checkMemory);
  Launch prepareLaunch(const plan::Launch &launch, Prepared &prepared);
  Instruction prepareInstruction(const plan::Instruction &instruction, Prepared &prepared);
  void execute(const Matmul &matmul, const Prepared &prepared);
  void execute(const Window &window);
  void execute(const Instruction &instruction, const Prepared &prepared);
  uint8_t *use(uint32_t slot);

  Arena arena_;
  CpuIsa isa_;
  std::unique_ptr<KernelLibrary> library_;
  std::optional<GemmWorkspace> workspace_;
  std::optional<GemmStaging> staging_; // where the plan has products in low precision
  std::vector<KernelFunction> functions_; // per kernel of the plan
  std::vector<Prepared> programs_;
  std::optional<Recording> recording_;
};

} // namespace tapeout::rt
