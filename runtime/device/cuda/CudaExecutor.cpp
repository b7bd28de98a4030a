#include "runtime/device/cuda/CudaExecutor.h"

#include "runtime/PlanMatmul.h"
#include "runtime/device/cuda/ProductTuning.h"
#include "runtime/device/cuda/TensorMap.h"

#include <fmt/format.h>

#include <algorithm>

namespace tapeout::rt {
namespace {

constexpr uint64_t kTableAlignment = 256;

double gibibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }
uint64_t alignTable(uint64_t bytes) { return (bytes + kTableAlignment - 1) / kTableAlignment * kTableAlignment; }

/// The kernel that an instruction launches, by itself or behind a product; null: none.
const plan::Launch *launchOf(const plan::Instruction &instruction) {
  const plan::Matmul *matmul = instruction.body_as_Matmul();
  return matmul ? matmul->epilogue() : instruction.body_as_Launch();
}

/// Bytes of the argument tables of all launches.
uint64_t tableBytes(const Plan &plan) {
  uint64_t bytes = 0;
  for (const plan::Program *program : orEmpty(plan.root().programs()))
    for (const plan::Instruction *instruction : orEmpty(program->instructions()))
      if (const plan::Launch *launch = launchOf(*instruction))
        if (const plan::Kernel &kernel = *plan.root().kernels()->Get(launch->kernel()); kernel.gpu()->argument_table())
          bytes += alignTable(kernel.argument_count() * sizeof(CuDevicePointer));
  return bytes;
}

Status checkFreeMemory(const CudaDevice &device, const Plan &plan, uint64_t libraryBytes) {
  size_t free = 0, total = 0;
  const CudaDriver &driver = device.driver();
  TAPEOUT_RETURN_IF_ERROR(driver.check(driver.memGetInfo(&free, &total), "the GPU's memory"));
  uint64_t needed = plan.persistentBytes() + plan.arenaBytes() + libraryBytes; // no overflow: Plan limits all
  if (needed <= free)
    return Status::ok();
  return Status::error(
      ExitCode::Unavailable,
      fmt::format("the model needs {:.2f} GiB of GPU memory ({:.2f} GiB for one step, {:.2f} GiB for parameters and optimizer, "
                  "{:.2f} GiB for library kernels) but {:.2f} GiB of the {:.2f} GiB of the {} are free; compile with a smaller "
                  "--batch, or end the programs that use the GPU",
                  gibibytes(needed), gibibytes(plan.arenaBytes()), gibibytes(plan.persistentBytes()), gibibytes(libraryBytes),
                  gibibytes(free), gibibytes(total), device.name()));
}

} // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(const Plan &plan, const CudaLibraries &libraries,
                                                           const ExecutorOptions &options) {
  Result<CudaDevice> device = CudaDevice::open(libraries.driver);
  if (!device.isOk())
    return device.status();
  TAPEOUT_RETURN_IF_ERROR(checkImages(plan, device->architecture(), device->name()));
  TAPEOUT_RETURN_IF_ERROR(checkTensorMapSupport(device->driver(), plan));
  uint64_t libraryBytes = alignTable(plan.root().workspace_bytes()) + tableBytes(plan);
  TAPEOUT_RETURN_IF_ERROR(checkFreeMemory(*device, plan, libraryBytes));

  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(plan, std::move(*device), options, libraries.openCupti));
  executor->libraryBytes_ = libraryBytes;
  executor->tableEnd_ = alignTable(plan.root().workspace_bytes());
  TAPEOUT_RETURN_IF_ERROR(executor->allocate());
  Result<KernelModules> modules = KernelModules::load(executor->driver_, plan, executor->device_.architecture());
  if (!modules.isOk())
    return modules.status();
  executor->modules_ = std::move(*modules);
  if (libraries.blas)
    TAPEOUT_RETURN_IF_ERROR(executor->openLibrary(*libraries.blas));
  if (libraries.dnn)
    TAPEOUT_RETURN_IF_ERROR(executor->openLibrary(*libraries.dnn));
  for (const plan::Program *program : orEmpty(plan.root().programs()))
    TAPEOUT_RETURN_IF_ERROR(executor->prepare(*program));
  if (libraries.blas)
    TAPEOUT_RETURN_IF_ERROR(executor->tune(options.tuningPath));
  return executor;
}

CudaExecutor::~CudaExecutor() {
  if (stream_)
    driver_.streamSynchronize(stream_.get()); // nothing may still be running when memory and modules go
}

Status CudaExecutor::allocate() {
  CuStream stream;
  TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.streamCreate(&stream, kCuStreamNonBlocking), "a stream"));
  stream_ = Owned(stream, driver_.streamDestroy);
  auto take = [&](uint64_t bytes, const char *what, Owned<CuDevicePointer> &memory) {
    Result<Owned<CuDevicePointer>> taken = allocateDevice(driver_, bytes, stream, what);
    if (taken.isOk())
      memory = std::move(*taken);
    return taken.isOk() ? Status::ok() : taken.status();
  };
  TAPEOUT_RETURN_IF_ERROR(take(plan().persistentBytes(), "parameters and optimizer", persistent_));
  TAPEOUT_RETURN_IF_ERROR(take(plan().arenaBytes() + kGuardBytes, "values of one step", arena_));
  TAPEOUT_RETURN_IF_ERROR(take(libraryBytes_, "library kernels", library_));
  Result<HostRing> ring = HostRing::create(driver_, plan());
  if (!ring.isOk())
    return ring.status();
  ring_ = std::move(*ring);
  return Status::ok();
}

Status CudaExecutor::openLibrary(const CublasLt &library) {
  blas_.library = library;
  CublasHandle handle;
  TAPEOUT_RETURN_IF_ERROR(blas_.check(library.create(&handle), "it does not start"));
  blas_.handle = Owned(handle, library.destroy);
  blas_.workspace = library_.get();
  blas_.workspaceBytes = plan().root().workspace_bytes();
  blas_.stream = stream_.get();
  return Status::ok();
}

Status CudaExecutor::openLibrary(const CudnnLibrary &library) {
  dnn_.library = library;
  CudnnHandle handle;
  TAPEOUT_RETURN_IF_ERROR(library.check(library.create(&handle), "it does not start"));
  dnn_.handle = Owned(handle, library.destroy);
  return library.check(library.setStream(handle, stream_.get()), "it takes no stream");
}

Status CudaExecutor::prepare(const plan::Program &program) {
  Prepared prepared{.program = &program, .instructions = {}, .check = {}, .graph = {}, .nodes = {}};
  for (const plan::Instruction *instruction : orEmpty(program.instructions())) {
    Result<Instruction> made = prepareInstruction(*instruction);
    if (!made.isOk())
      return made.status();
    prepared.instructions.push_back(std::move(*made));
  }
  if (checkMemory_) {
    Result<MemoryCheck> check = MemoryCheck::create(plan(), program);
    if (!check.isOk())
      return check.status();
    prepared.check.emplace(std::move(*check));
  }
  programs_.push_back(std::move(prepared));
  return Status::ok();
}

CuDevicePointer CudaExecutor::address(uint32_t index) const {
  const plan::Slot &slot = plan().slot(index);
  return (slot.kind() == plan::SlotKind::Arena ? arena_ : persistent_).get() + slot.offset();
}

CuDevicePointer CudaExecutor::use(uint32_t index) {
  const plan::Slot &slot = plan().slot(index);
  if (slot.kind() == plan::SlotKind::Arena)
    highWater_ = std::max(highWater_, slot.offset() + slot.bytes());
  return address(index);
}

Result<CudaExecutor::Launch> CudaExecutor::prepareLaunch(const plan::Launch &launch) {
  const plan::Kernel &kernel = *plan().root().kernels()->Get(launch.kernel());
  const plan::GpuKernel &gpu = *kernel.gpu();
  std::vector<CuDevicePointer> arguments;
  for (uint32_t i = 0; i < kernel.argument_count(); ++i)
    arguments.push_back(use(launch.arguments()->Get(i)));
  if (gpu.argument_table()) {
    CuDevicePointer table = library_.get() + tableEnd_;
    uint64_t bytes = arguments.size() * sizeof(CuDevicePointer);
    tableEnd_ += alignTable(bytes);
    TAPEOUT_RETURN_IF_ERROR(
        driver_.check(driver_.memcpyHtoDAsync(table, arguments.data(), bytes, stream_.get()), "a table of arguments"));
    TAPEOUT_RETURN_IF_ERROR(synchronize());
    arguments = {table};
  }
  std::vector<CuTensorMap> maps;
  for (const plan::TensorMap *map : orEmpty(gpu.tensor_maps())) {
    const plan::Slot &slot = plan().slot(launch.arguments()->Get(map->argument()));
    Result<CuTensorMap> encoded = encodeTensorMap(driver_, *map, slot, arguments[map->argument()]);
    if (!encoded.isOk())
      return encoded.status();
    maps.push_back(*encoded);
  }
  return Launch{modules_.function(launch.kernel()), gpu.blocks(), gpu.threads(), gpu.shared_bytes(),
                std::move(arguments), std::move(maps)};
}

Status CudaExecutor::prepareBias(const plan::Matmul &matmul, ProductOperands operands, TunedProduct &product) {
  operands.bias = use(matmul.epilogue()->arguments()->Get(1));
  Result<CublasProduct> withBias = CublasProduct::create(blas_, toGemmProblem(matmul), operands);
  if (!withBias.isOk())
    return withBias.status();
  product.withBias.emplace(std::move(*withBias));
  Result<Launch> launch = prepareLaunch(*matmul.epilogue());
  if (!launch.isOk())
    return launch.status();
  product.addBias = [this, launch = std::move(*launch)] { return queue(launch); };
  return Status::ok();
}

Result<CudaExecutor::Instruction> CudaExecutor::prepareAttention(const plan::Instruction &instruction) {
  const plan::Attention &attention = *instruction.body_as_Attention();
  const auto &operands = *attention.operands();
  ElementType type = elementType(plan().slot(operands[0]->slot()));
  AttentionCall call{.backward = attention.backward(),
                     .causal = attention.causal(),
                     .nondeterministic = attention.nondeterministic(),
                     .type = type,
                     .batch = attention.batch(),
                     .heads = attention.heads(),
                     .keyHeads = attention.key_heads(),
                     .tokens = attention.tokens(),
                     .headSize = attention.head_size(),
                     .scale = static_cast<float>(attention.scale()),
                     .dropout = {},
                     .lengths = 0,
                     .lse = use(attention.lse()),
                     .operands = {}};
  if (const plan::AttentionDropout *dropout = attention.dropout())
    call.dropout = {dropout->rate(), use(dropout->seed()), use(dropout->offset())};
  for (uint32_t i = 0; i < operands.size(); ++i)
    call.operands[i] = {use(operands[i]->slot()) + operands[i]->offset() * elementSize(type), operands[i]->batch_stride(),
                        operands[i]->token_stride(), operands[i]->head_stride()};
  if (auto lengths = attention.lengths())
    call.lengths = use(*lengths);
  CudnnWorkspace workspace{library_.get(), plan().root().workspace_bytes()};
  if (auto scratch = instruction.scratch())
    workspace = {use(*scratch), plan().slot(*scratch).bytes()};
  Result<CudnnAttention> made = CudnnAttention::create(dnn_, call, workspace, attentionPlans_);
  if (!made.isOk())
    return made.status();
  attentions_.push_back(std::move(*made));
  return Instruction(Attention{attentions_.size() - 1});
}

Result<CudaExecutor::Instruction> CudaExecutor::prepareInstruction(const plan::Instruction &instruction) {
  if (const plan::Launch *planned = instruction.body_as_Launch()) {
    Result<Launch> launch = prepareLaunch(*planned);
    return launch.isOk() ? Result<Instruction>(Instruction(std::move(*launch))) : launch.status();
  }
  if (const plan::Matmul *matmul = instruction.body_as_Matmul()) {
    auto at = [&](uint32_t slot, int64_t offset) {
      return use(slot) + offset * elementSize(elementType(plan().slot(slot)));
    };
    ProductOperands operands{at(matmul->a(), matmul->a_offset()), at(matmul->b(), matmul->b_offset()),
                             at(matmul->c(), matmul->c_offset()), elementType(plan().slot(matmul->a())),
                             elementType(plan().slot(matmul->c()))};
    Result<CublasProduct> plain = CublasProduct::create(blas_, toGemmProblem(*matmul), operands);
    if (!plain.isOk())
      return plain.status();
    TunedProduct product{std::move(*plain)};
    if (matmul->bias())
      TAPEOUT_RETURN_IF_ERROR(prepareBias(*matmul, operands, product));
    products_.push_back(std::move(product));
    return Instruction(Product{products_.size() - 1});
  }
  if (instruction.body_as_Attention())
    return prepareAttention(instruction);
  const plan::Copy &copy = *instruction.body_as_Copy();
  return Instruction(Copy{use(copy.source()), use(copy.destination()), copy.bytes()});
}

/// Before anything lies in memory: kernels are timed on random numbers, since zeros would make them faster.
Status CudaExecutor::tune(const std::string &path) {
  const std::pair<CuDevicePointer, uint64_t> regions[] = {{persistent_.get(), plan().persistentBytes()},
                                                          {arena_.get(), plan().arenaBytes()}};
  for (auto [begin, bytes] : regions)
    TAPEOUT_RETURN_IF_ERROR(fillWithRandomNumbers(driver_, begin, bytes, stream_.get()));
  TuningIdentity identity{plan().hash(), device_.name(), device_.driverVersion(), blas_.library.getVersion()};
  Result<std::string> done = chooseAlgorithms(driver_, products_, stream_.get(), path, identity);
  if (!done.isOk())
    return done.status();
  tuning_ = *done;
  for (auto [begin, bytes] : regions)
    TAPEOUT_RETURN_IF_ERROR(driver_.check(driver_.memsetD8Async(begin, 0, bytes, stream_.get()), "clearing memory"));
  return synchronize();
}

std::string CudaExecutor::architecture() const { return fmt::format("sm_{}", device_.architecture()); }

std::string CudaExecutor::description() const {
  std::string text = fmt::format("{} ({}), driver {}.{}", device_.name(), architecture(), device_.driverVersion() / 1000,
                                 device_.driverVersion() % 1000 / 10);
  if (!blas_.handle)
    return text;
  uint64_t version = blas_.library.getVersion();
  return fmt::format("{}, cuBLASLt {}.{}, {}", text, version / 10000, version / 100 % 100, tuning_);
}

} // namespace tapeout::rt
