#include "runtime/device/cpu/CpuExecutor.h"

#include "runtime/PlanMatmul.h"
#include "runtime/PlanWindow.h"
#include "runtime/device/cpu/Pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tapeout::rt {
namespace {

constexpr int64_t kCopyGrain = 256 << 10; // bytes; below this a second thread costs more than it saves

Result<CpuIsa> chooseIsa(std::optional<CpuIsa> wanted) {
  Result<CpuIsa> found = detectCpuIsa();
  if (found.isOk() && wanted == CpuIsa::Avx512 && *found != CpuIsa::Avx512)
    return Status::error(ExitCode::Unavailable, "this processor lacks AVX-512; run without asking for it");
  return found.isOk() && wanted ? *wanted : found;
}

bool hasLowPrecisionProducts(const Plan &plan) {
  for (const plan::Program *program : orEmpty(plan.root().programs()))
    for (const plan::Instruction *instruction : orEmpty(program->instructions()))
      if (const plan::Matmul *matmul = instruction->body_as_Matmul())
        if (elementType(plan.slot(matmul->a())) != ElementType::F32)
          return true;
  return false;
}

} // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const Plan &plan, std::span<const uint8_t> kernels,
                                                         const ExecutorOptions &options) {
  Result<CpuIsa> isa = chooseIsa(options.isa);
  if (!isa.isOk())
    return isa.status();
  Result<Arena> arena = Arena::create(plan, availableMemory());
  if (!arena.isOk())
    return arena.status();
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(plan, std::move(*arena), *isa, options.threads));
  Result<GemmWorkspace> workspace = GemmWorkspace::create(executor->pool().threads());
  if (!workspace.isOk())
    return workspace.status();
  executor->workspace_.emplace(std::move(*workspace));
  if (hasLowPrecisionProducts(plan)) {
    Result<GemmStaging> staging = GemmStaging::create(executor->pool().threads());
    if (!staging.isOk())
      return staging.status();
    executor->staging_.emplace(std::move(*staging));
  }
  TAPEOUT_RETURN_IF_ERROR(executor->resolveKernels(kernels));
  for (const plan::Program *program : orEmpty(plan.root().programs()))
    TAPEOUT_RETURN_IF_ERROR(executor->prepare(*program, options.checkMemory));
  return executor;
}

Status CpuExecutor::resolveKernels(std::span<const uint8_t> kernels) {
  if (orEmpty(plan().root().kernels()).size() == 0)
    return Status::ok();
  Result<std::unique_ptr<KernelLibrary>> library = KernelLibrary::load(kernels);
  if (!library.isOk())
    return library.status();
  library_ = std::move(*library);
  for (const plan::Kernel *kernel : *plan().root().kernels()) {
    Result<KernelFunction> function = library_->resolve(kernel->symbol()->str(), isa_);
    if (!function.isOk())
      return function.status();
    functions_.push_back(*function);
  }
  return Status::ok();
}

Status CpuExecutor::prepare(const plan::Program &program, bool checkMemory) {
  Prepared prepared{.program = &program, .instructions = {}, .arguments = {}, .check = {}};
  for (const plan::Instruction *instruction : orEmpty(program.instructions()))
    prepared.instructions.push_back(prepareInstruction(*instruction, prepared));
  if (checkMemory) {
    Result<MemoryCheck> check = MemoryCheck::create(plan(), program);
    if (!check.isOk())
      return check.status();
    prepared.check.emplace(std::move(*check));
  }
  programs_.push_back(std::move(prepared));
  return Status::ok();
}

uint8_t *CpuExecutor::use(uint32_t slot) {
  arena_.touch(plan().slot(slot));
  return address(slot);
}

CpuExecutor::Launch CpuExecutor::prepareLaunch(const plan::Launch &launch, Prepared &prepared) {
  const plan::Kernel &kernel = *plan().root().kernels()->Get(launch.kernel());
  size_t firstArgument = prepared.arguments.size();
  for (uint32_t i = 0; i < kernel.argument_count(); ++i)
    prepared.arguments.push_back(use(launch.arguments()->Get(i)));
  return {functions_[launch.kernel()], firstArgument, static_cast<int64_t>(kernel.units()),
          static_cast<int64_t>(kernel.grain())};
}

CpuExecutor::Instruction CpuExecutor::prepareInstruction(const plan::Instruction &instruction, Prepared &prepared) {
  if (const plan::Launch *launch = instruction.body_as_Launch())
    return prepareLaunch(*launch, prepared);
  if (const plan::Matmul *matmul = instruction.body_as_Matmul()) {
    auto typeOf = [&](uint32_t slot) { return elementType(plan().slot(slot)); };
    auto at = [&](uint32_t slot, int64_t offset) -> void * { return use(slot) + offset * elementSize(typeOf(slot)); };
    Matmul result{toGemmProblem(*matmul),
                  {typeOf(matmul->a()), typeOf(matmul->c())},
                  at(matmul->a(), matmul->a_offset()),
                  at(matmul->b(), matmul->b_offset()),
                  at(matmul->c(), matmul->c_offset()),
                  {}};
    if (matmul->epilogue())
      result.epilogue = prepareLaunch(*matmul->epilogue(), prepared);
    return result;
  }
  if (const plan::Window *window = instruction.body_as_Window()) {
    Window prepared{window->function(), toConvolutionShape(*window), window->parts(), {}};
    for (uint32_t i = 0; i < window->arguments()->size(); ++i)
      prepared.arguments[i] = use(window->arguments()->Get(i));
    return prepared;
  }
  const plan::Copy &copy = *instruction.body_as_Copy();
  return Copy{use(copy.source()), use(copy.destination()), static_cast<int64_t>(copy.bytes())};
}

void CpuExecutor::execute(const Matmul &matmul, const Prepared &prepared) {
  auto finish = [&](GemmPiece piece) {
    int64_t units = epilogueUnits(matmul.problem.n), first = piece.column / kEpilogueColumns;
    int64_t end = first + epilogueUnits(piece.columns);
    for (int64_t row = piece.row; row < piece.row + piece.rows; ++row)
      matmul.epilogue->function(prepared.arguments.data() + matmul.epilogue->firstArgument, row * units + first,
                                row * units + end);
  };
  FunctionRef<void(GemmPiece)> whenFinished;
  if (matmul.epilogue)
    whenFinished = finish;
  if (matmul.types.operand == ElementType::F32)
    gemm(matmul.problem, static_cast<const float *>(matmul.a), static_cast<const float *>(matmul.b),
         static_cast<float *>(matmul.c), isa_, pool(), *workspace_, whenFinished);
  else
    lowPrecisionGemm(matmul.problem, matmul.types, matmul.a, matmul.b, matmul.c, isa_, pool(), *workspace_, *staging_,
                     whenFinished);
}

void CpuExecutor::execute(const Window &window) {
  const ConvolutionShape &shape = window.shape;
  int64_t planes = shape.batch * shape.channels;
  auto floats = [&](int i) { return static_cast<float *>(window.arguments[i]); };
  auto integers = [&](int i) { return static_cast<int32_t *>(window.arguments[i]); };
  switch (window.function) {
  case plan::WindowFunction::Convolution: return convolve(shape, floats(0), floats(1), floats(2), isa_, pool(), *workspace_);
  case plan::WindowFunction::ConvolutionInputGrad:
    return convolveInputGradient(shape, floats(0), floats(1), floats(2), isa_, pool(), *workspace_);
  case plan::WindowFunction::ConvolutionWeightGrad:
    return convolveWeightGradient(shape, window.parts, floats(0), floats(1), floats(2), isa_, pool(), *workspace_);
  case plan::WindowFunction::MaxPool: return poolMaximum(shape.window, planes, floats(0), floats(1), integers(2), pool());
  case plan::WindowFunction::MaxPoolGrad:
    return poolMaximumGradient(shape.window, planes, integers(0), floats(1), floats(2), pool());
  case plan::WindowFunction::AvgPool: return poolAverage(shape.window, planes, floats(0), floats(1), pool());
  case plan::WindowFunction::AvgPoolGrad: return poolAverageGradient(shape.window, planes, floats(0), floats(1), pool());
  }
}

void CpuExecutor::execute(const Instruction &instruction, const Prepared &prepared) {
  if (const auto *launch = std::get_if<Launch>(&instruction)) {
    void *const *arguments = prepared.arguments.data() + launch->firstArgument;
    pool().parallelFor(launch->units, launch->grain,
                      [&](int64_t begin, int64_t end) { launch->function(arguments, begin, end); });
  } else if (const auto *matmul = std::get_if<Matmul>(&instruction)) {
    execute(*matmul, prepared);
  } else if (const auto *window = std::get_if<Window>(&instruction)) {
    execute(*window);
  } else {
    const auto &copy = std::get<Copy>(instruction);
    pool().parallelFor(copy.bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(copy.destination + begin, copy.source + begin, end - begin);
    });
  }
}

Status CpuExecutor::write(uint32_t slot, FunctionRef<void(std::span<uint8_t>)> fill) {
  fill({address(slot), plan().slot(slot).bytes()});
  return Status::ok();
}

Status CpuExecutor::clear(uint32_t slot) {
  std::memset(address(slot), 0, plan().slot(slot).bytes());
  return Status::ok();
}

Result<SlotBytes> CpuExecutor::read(uint32_t slot) {
  return SlotBytes(std::span<const uint8_t>(address(slot), shapeBytes(plan().slot(slot))));
}

std::string CpuExecutor::description() const {
  return fmt::format("{} threads, {}", pool().threads(), isa_ == CpuIsa::Avx512 ? "AVX-512" : "AVX2");
}

Status CpuExecutor::startRecording() {
  recording_ = Recording{.means = "the processor's clock", .runs = {}, .graphs = {}, .roofs = {}};
  return Status::ok();
}

Result<Recording> CpuExecutor::finishRecording() { return *std::exchange(recording_, std::nullopt); }

Status CpuExecutor::run(const plan::Program &program) {
  auto found = std::find_if(programs_.begin(), programs_.end(),
                            [&](const Prepared &prepared) { return prepared.program == &program; });
  assert(found != programs_.end() && "a program of this executor's plan");
  const std::span<uint8_t> arena(arena_.transient().data(), arena_.transient().size() + MemoryRegion::kMinSlack);
  if (found->check)
    std::memset(arena.data(), MemoryCheck::kPoison, arena.size());
  std::vector<Activity> *activities = nullptr;
  if (recording_)
    activities = &recording_->runs.emplace_back(RecordedRun{&program, {}}).activities;
  for (size_t i = 0; i < found->instructions.size(); ++i) {
    if (activities)
      activities->push_back({program.instructions()->Get(i), "", std::chrono::steady_clock::now(), {}});
    execute(found->instructions[i], *found);
    if (activities)
      activities->back().end = std::chrono::steady_clock::now();
    if (found->check)
      for (uint32_t slot : found->check->dyingAfter(i))
        std::memset(address(slot), MemoryCheck::kPoison, plan().slot(slot).bytes());
  }
  return found->check ? found->check->checkPoison(arena) : Status::ok();
}

} // namespace tapeout::rt
