// Runs the programs of a plan on the CPU. Owns everything that a run needs: memory, kernels, threads.
//
// Every program is prepared once into a flat array of instructions with resolved addresses; a run is one loop over it.
// The bits of a result depend on neither the number of threads nor the instruction set.
#pragma once

#include "runtime/Arena.h"
#include "runtime/MemoryCheck.h"
#include "runtime/Plan.h"
#include "runtime/device/cpu/Convolution.h"
#include "runtime/device/cpu/KernelLibrary.h"
#include "runtime/device/cpu/LowPrecisionGemm.h"
#include "runtime/device/cpu/ThreadPool.h"

#include <chrono>
#include <optional>
#include <variant>

namespace tapeout::rt {

struct ExecutorOptions {
  int threads = 0;           ///< 0: as many as this process may use
  std::optional<CpuIsa> isa; ///< none: the widest the processor has
  bool checkMemory = false;  ///< see MemoryCheck.h
};

/// When an instruction ran.
struct InstructionTime {
  const plan::Instruction *instruction;
  std::chrono::steady_clock::time_point begin, end;
};

class Executor {
public:
  /// `plan` outlives the executor; `kernels` (an ELF shared object) may be empty for a plan without kernels.
  static Result<std::unique_ptr<Executor>> create(const Plan &plan, std::span<const uint8_t> kernels,
                                                  const ExecutorOptions &options);

  /// Runs one program of the plan. `times`, when given, gets one entry per instruction appended.
  Status run(const plan::Program &program, std::vector<InstructionTime> *times = nullptr);

  const Plan &plan() const { return plan_; }
  const Arena &arena() const { return arena_; }
  uint8_t *address(uint32_t slot) const { return arena_.address(plan_.slot(slot)); }
  ThreadPool &pool() { return pool_; }
  CpuIsa isa() const { return isa_; }

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

  Executor(const Plan &plan, Arena arena, CpuIsa isa, int threads)
      : plan_(plan), arena_(std::move(arena)), isa_(isa), pool_(threads) {}
  Status resolveKernels(std::span<const uint8_t> kernels);
  Status prepare(const plan::Program &program, bool checkMemory);
  Launch prepareLaunch(const plan::Launch &launch, Prepared &prepared);
  Instruction prepareInstruction(const plan::Instruction &instruction, Prepared &prepared);
  void execute(const Matmul &matmul, const Prepared &prepared);
  void execute(const Window &window);
  void execute(const Instruction &instruction, const Prepared &prepared);
  uint8_t *use(uint32_t slot);

  const Plan &plan_;
  Arena arena_;
  CpuIsa isa_;
  ThreadPool pool_;
  std::unique_ptr<KernelLibrary> library_;
  std::optional<GemmWorkspace> workspace_;
  std::optional<GemmStaging> staging_; // where the plan has products in low precision
  std::vector<KernelFunction> functions_; // per kernel of the plan
  std::vector<Prepared> programs_;
};

} // namespace tapeout::rt
