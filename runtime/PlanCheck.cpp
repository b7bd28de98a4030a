#include "runtime/PlanCheck.h"

#include "runtime/Plan.h"
#include "runtime/PlanMatmul.h"
#include "runtime/PlanWindow.h"
#include "runtime/base/Hyperparameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace tapeout::rt {
namespace {

constexpr auto kFormatVersion = static_cast<uint32_t>(plan::PlanFormat::Current);
constexpr uint64_t kSlotAlignment = 64;
// Limits far above any real plan; they keep all sums below 2^63 and the checks' own time bounded.
constexpr uint64_t kMaxRegionBytes = uint64_t(1) << 46;
constexpr int64_t kMaxExtent = int64_t(1) << 46;
constexpr uint32_t kMaxRank = 16;
constexpr uint64_t kMaxLaunchArguments = uint64_t(1) << 24; // summed over the plan
constexpr size_t kMaxSymbolLength = 1024;

/// a * b, or nothing when it exceeds the largest region.
std::optional<uint64_t> boundedProduct(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxRegionBytes)
    return std::nullopt;
  return product;
}

/// The verifier checks the alignment of fields, but not that of vector elements of 8 bytes.
template <typename T> bool isAligned(const flatbuffers::Vector<T> *vector) {
  return !vector || reinterpret_cast<uintptr_t>(vector->Data()) % sizeof(int64_t) == 0;
}

bool isSymbol(const flatbuffers::String *text) {
  if (!text || text->size() == 0 || text->size() > kMaxSymbolLength ||
      (text->c_str()[0] >= '0' && text->c_str()[0] <= '9'))
    return false;
  return std::all_of(text->begin(), text->end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// Walks the plan from its leaves (slots, kernels) to the programs that refer to them.
class Checker {
public:
  explicit Checker(const plan::Plan &plan) : plan_(plan) {}
  Status run();

private:
  Status checkHeader() const;
  Status checkModel() const;
  Status checkDefaults() const;
  Status checkSlot(uint32_t index) const;
  Status checkShape(const plan::Slot &slot) const;
  Status checkInitializer(const plan::Slot &slot) const;
  Status checkConfigSlot() const;
  Status checkPersistentOverlap() const;
  Status checkSavedNames() const;
  Status checkKernel(const plan::Kernel &kernel) const;
  Status checkProgram(const plan::Program &program);
  Status checkProgramContract(const plan::Program &program) const;
  Status checkNamedSlots(const plan::Program &program, bool inputs) const;
  Status checkInstruction(const plan::Instruction &instruction);
  Status checkLaunch(const plan::Launch &launch);
  Status checkMatmul(const plan::Matmul &matmul);
  Status checkAttention(const plan::Attention &attention, std::optional<uint32_t> scratch) const;
  Status checkDropout(const plan::AttentionDropout &dropout) const;
  Status checkEpilogue(const plan::Matmul &matmul);
  Status checkWindow(const plan::Window &window) const;
  Status checkCopy(const plan::Copy &copy) const;
  Status checkWritable(uint32_t slot) const;
  Status checkSlotIndex(uint32_t slot) const;

  const plan::Slot &slot(uint32_t index) const { return *plan_.slots()->Get(index); }
  std::string slotName(uint32_t index) const { return printable(slot(index).name()); }
  bool isCuda() const { return plan_.target()->string_view() == "cuda"; }
  bool inArena(const plan::Slot &slot) const { return slot.kind() == plan::SlotKind::Arena; }
  bool overlap(uint32_t a, uint64_t aBytes, uint32_t b, uint64_t bBytes) const;
  /// Adds the place to a fault.
  Status at(const Status &status) const {
    return status.isOk() ? status : Status::error(status.code(), fmt::format("{} ({})", status.message(), where_));
  }
  template <typename... Args> Status badHere(fmt::format_string<Args...> format, Args &&...args) const {
    return bad("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  const plan::Plan &plan_;
  std::string where_; // the instruction being checked, for messages
  uint64_t launchArguments_ = 0;
};

Status Checker::run() {
  TAPEOUT_RETURN_IF_ERROR(checkHeader());
  TAPEOUT_RETURN_IF_ERROR(checkModel());
  TAPEOUT_RETURN_IF_ERROR(checkDefaults());
  for (uint32_t i = 0; i < plan_.slots()->size(); ++i)
    TAPEOUT_RETURN_IF_ERROR(checkSlot(i));
  TAPEOUT_RETURN_IF_ERROR(checkConfigSlot());
  TAPEOUT_RETURN_IF_ERROR(checkPersistentOverlap());
  TAPEOUT_RETURN_IF_ERROR(checkSavedNames());
  if (isCuda())
    TAPEOUT_RETURN_IF_ERROR(checkModules(plan_));
  for (const plan::Kernel *kernel : orEmpty(plan_.kernels()))
    TAPEOUT_RETURN_IF_ERROR(checkKernel(*kernel));
  std::set<std::string> names;
  for (const plan::Program *program : orEmpty(plan_.programs())) {
    TAPEOUT_RETURN_IF_ERROR(checkProgram(*program));
    if (!names.insert(program->name()->str()).second)
      return bad("two programs are called '{}'", printable(program->name()));
  }
  return Status::ok();
}

Status Checker::checkHeader() const {
  if (plan_.format_version() != kFormatVersion)
    return Status::error(
        ExitCode::BadData,
        fmt::format("plan: its format version is {} but this runner reads version {}; compile the model "
                    "again with the tapeout that this runner belongs to",
                    plan_.format_version(), kFormatVersion));
  if (!plan_.target() || (plan_.target()->string_view() != "cpu" && !isCuda()))
    return Status::error(ExitCode::BadData,
                         fmt::format("plan: it is compiled for the target '{}' but this runner has only 'cpu' and 'cuda'; "
                                     "compile the model again with one of them as --target",
                                     printable(plan_.target())));
  if (!plan_.model() || !plan_.slots())
    return bad("its model or its slots are missing");
  if (plan_.slots()->size() > INT32_MAX)
    return bad("it has {} slots", plan_.slots()->size());
  if (plan_.arena_bytes() > kMaxRegionBytes || plan_.persistent_bytes() > kMaxRegionBytes)
    return bad("it asks for {} arena and {} persistent bytes, more than any machine has", plan_.arena_bytes(),
               plan_.persistent_bytes());
  if (plan_.workspace_bytes() > kMaxRegionBytes)
    return bad("it asks for {} bytes of workspace, more than any machine has", plan_.workspace_bytes());
  return Status::ok();
}

Status Checker::checkModel() const {
  const plan::Model &model = *plan_.model();
  if (model.task() > plan::Task::MAX)
    return bad("the model's task {} is unknown", static_cast<unsigned>(model.task()));
  bool languageModel = readsTokens(model.task());
  if (model.batch() < 1 || model.batch() > kMaxExtent)
    return bad("the model's batch of {} samples is out of range", model.batch());
  if (model.context() < (languageModel ? 1 : 0) || model.context() > kMaxExtent)
    return bad("the model's context of {} tokens is out of range", model.context());
  if (model.vocabulary() < (languageModel ? 1 : 0) || model.vocabulary() > kMaxExtent)
    return bad("the model's vocabulary of {} is out of range", model.vocabulary());
  bool masked = model.task() == plan::Task::MaskedLanguageModel;
  if (masked && (model.mask_token() < 0 || model.mask_token() >= model.vocabulary()))
    return bad("the model's mask token {} is not in its vocabulary of {}", model.mask_token(), model.vocabulary());
  if (!boundedProduct(model.batch(), std::max<int64_t>(1, model.context())))
    return bad("the model's batch of {} samples of {} tokens is out of range", model.batch(), model.context());
  return Status::ok();
}

Status Checker::checkDefaults() const {
  std::set<std::string> seen;
  for (const plan::Default *entry : orEmpty(plan_.defaults())) {
    std::string name = entry->name() ? entry->name()->str() : "";
    if (std::find(kHyperparameterNames.begin(), kHyperparameterNames.end(), name) == kHyperparameterNames.end())
      return bad("the default '{}' is not a hyperparameter", printable(entry->name()));
    if (!std::isfinite(entry->value()))
      return bad("the default of '{}' is not a finite number", name);
    if (!seen.insert(name).second)
      return bad("the default of '{}' is given twice", name);
  }
  return Status::ok();
}

Status Checker::checkSlot(uint32_t index) const {
  const plan::Slot &slot = this->slot(index);
  if (!slot.name())
    return bad("slot {} has no name", index);
  if (slot.kind() > plan::SlotKind::MAX || slot.element_type() > plan::ElementType::MAX)
    return bad("slot '{}' has an unknown kind or element type", printable(slot.name()));
  TAPEOUT_RETURN_IF_ERROR(checkShape(slot));
  uint64_t region = inArena(slot) ? plan_.arena_bytes() : plan_.persistent_bytes();
  if (slot.offset() % kSlotAlignment != 0)
    return bad("slot '{}' starts at {}, which is not a multiple of {}", printable(slot.name()), slot.offset(),
               kSlotAlignment);
  if (slot.offset() > region || slot.bytes() > region - slot.offset())
    return bad("slot '{}' ({} bytes at {}) leaves its region of {} bytes", printable(slot.name()), slot.bytes(),
               slot.offset(), region);
  bool startsFromConstant = slot.initializer() && slot.initializer()->kind() == plan::InitializerKind::Constant;
  if (slot.kind() == plan::SlotKind::OptimizerState && slot.initializer() && !startsFromConstant)
    return bad("state '{}' has a recipe that is not a constant", printable(slot.name()));
  if (slot.kind() == plan::SlotKind::Parameter || (slot.kind() == plan::SlotKind::OptimizerState && slot.initializer()))
    TAPEOUT_RETURN_IF_ERROR(checkInitializer(slot));
  if (slot.kind() == plan::SlotKind::Constant) {
    uint64_t needed = shapeBytes(slot);
    if (!slot.constant() || slot.constant()->size() < needed || slot.constant()->size() > slot.bytes())
      return bad("constant '{}' does not hold the {} bytes of its shape", printable(slot.name()), needed);
  }
  return Status::ok();
}

Status Checker::checkShape(const plan::Slot &slot) const {
  uint32_t rank = slot.shape() ? slot.shape()->size() : 0;
  if (rank > kMaxRank)
    return bad("slot '{}' has {} dimensions, more than {}", printable(slot.name()), rank, kMaxRank);
  if (!isAligned(slot.shape()))
    return bad("the shape of slot '{}' is not aligned", printable(slot.name()));
  std::optional<uint64_t> needed = elementSize(elementType(slot));
  for (uint32_t i = 0; i < rank && needed; ++i) {
    int64_t extent = slot.shape()->Get(i);
    if (extent < 1)
      return bad("slot '{}' has the extent {} in dimension {}", printable(slot.name()), extent, i);
    needed = boundedProduct(*needed, extent);
  }
  if (!needed || slot.bytes() < *needed)
    return bad("slot '{}' has {} bytes, too few for its shape", printable(slot.name()), slot.bytes());
  return Status::ok();
}

Status Checker::checkInitializer(const plan::Slot &slot) const {
  const plan::Initializer *recipe = slot.initializer();
  if (!recipe || recipe->kind() > plan::InitializerKind::MAX)
    return bad("'{}' has no known initialiser", printable(slot.name()));
  if (!std::isfinite(recipe->a()) || !std::isfinite(recipe->b()))
    return bad("'{}' starts from a number that is not finite", printable(slot.name()));
  if (!isFloat(elementType(slot)))
    return bad("'{}' starts from a number, but is not of a floating-point type", printable(slot.name()));
  return Status::ok();
}

Status Checker::checkConfigSlot() const {
  int count = 0;
  for (const plan::Slot *slot : *plan_.slots()) {
    if (slot->kind() != plan::SlotKind::Config)
      continue;
    ++count;
    if (slot->element_type() != plan::ElementType::F64 || elementCount(*slot) < kConfigSlotLength)
      return bad("the config slot '{}' does not hold {} float64 numbers", printable(slot->name()), kConfigSlotLength);
  }
  if (count != 1)
    return bad("it has {} config slots instead of one", count);
  return Status::ok();
}

Status Checker::checkPersistentOverlap() const {
  std::vector<const plan::Slot *> slots;
  for (const plan::Slot *slot : *plan_.slots())
    if (!inArena(*slot))
      slots.push_back(slot);
  std::stable_sort(slots.begin(), slots.end(),
                   [](const plan::Slot *a, const plan::Slot *b) { return a->offset() < b->offset(); });
  for (size_t i = 1; i < slots.size(); ++i)
    if (slots[i - 1]->offset() + slots[i - 1]->bytes() > slots[i]->offset())
      return bad("the persistent slots '{}' and '{}' overlap", printable(slots[i - 1]->name()),
                 printable(slots[i]->name()));
  return Status::ok();
}

/// Checkpoints and weight files find these slots by name.
Status Checker::checkSavedNames() const {
  std::set<std::string_view> names;
  for (const plan::Slot *slot : *plan_.slots())
    if (isSaved(slot->kind()) && !names.insert(slot->name()->string_view()).second)
      return bad("two parameters, states or counters are called '{}'", printable(slot->name()));
  return Status::ok();
}

Status Checker::checkKernel(const plan::Kernel &kernel) const {
  if (!isSymbol(kernel.symbol()))
    return bad("kernel '{}' is not a symbol name", printable(kernel.symbol()));
  if (kernel.units() < 1 || kernel.units() > uint64_t(kMaxExtent) || kernel.grain() < 1 ||
      kernel.grain() > uint64_t(kMaxExtent))
    return bad("kernel '{}' has {} units and a grain of {}, out of range", printable(kernel.symbol()), kernel.units(),
               kernel.grain());
  if (kernel.result_count() > kernel.argument_count())
    return bad("kernel '{}' has more results than arguments", printable(kernel.symbol()));
  return isCuda() ? checkGpuKernel(plan_, kernel) : Status::ok();
}

Status Checker::checkProgram(const plan::Program &program) {
  if (!program.name())
    return bad("a program has no name");
  TAPEOUT_RETURN_IF_ERROR(checkNamedSlots(program, /*inputs=*/true));
  TAPEOUT_RETURN_IF_ERROR(checkNamedSlots(program, /*inputs=*/false));
  TAPEOUT_RETURN_IF_ERROR(checkProgramContract(program));
  for (uint32_t i = 0; i < orEmpty(program.instructions()).size(); ++i) {
    const plan::Instruction &instruction = *program.instructions()->Get(i);
    if (instruction.layer() >= orEmpty(plan_.layers()).size() || instruction.phase() > 4)
      return bad("instruction {} of program '{}' has no known layer or phase", i, printable(program.name()));
    where_ = fmt::format("instruction {} of program '{}' (layer '{}')", i, printable(program.name()),
                         printable(plan_.layers()->Get(instruction.layer())));
    TAPEOUT_RETURN_IF_ERROR(checkInstruction(instruction));
  }
  return Status::ok();
}

Status Checker::checkNamedSlots(const plan::Program &program, bool inputs) const {
  const char *word = inputs ? "input" : "output";
  plan::SlotKind expected = inputs ? plan::SlotKind::Input : plan::SlotKind::Output;
  std::set<std::string> seen;
  for (const plan::NamedSlot *named : orEmpty(inputs ? program.inputs() : program.outputs())) {
    if (!named->name() || named->slot() >= plan_.slots()->size())
      return bad("an {} of program '{}' has no name or no slot", word, printable(program.name()));
    if (slot(named->slot()).kind() != expected)
      return bad("the {} '{}' of program '{}' lies in a slot of another kind", word, printable(named->name()),
                 printable(program.name()));
    if (!seen.insert(named->name()->str()).second)
      return bad("the {} '{}' of program '{}' is given twice", word, printable(named->name()),
                 printable(program.name()));
  }
  return Status::ok();
}

/// The host reads these outputs by name: one number each, logits for predict.
Status Checker::checkProgramContract(const plan::Program &program) const {
  std::string_view name = program.name()->string_view();
  std::vector<std::string_view> required;
  if (name == "step")
    required = {"loss"};
  else if (name == "evaluate")
    required = {"loss_sum", "count"};
  else if (name == "predict")
    required = {"logits"};
  for (std::string_view output : required)
    if (!findNamed(program.outputs(), output))
      return bad("program '{}' lacks the output '{}'", name, output);
  if (required.empty() || name == "predict")
    return Status::ok();
  for (const plan::NamedSlot *named : orEmpty(program.outputs()))
    if (elementCount(slot(named->slot())) != 1)
      return bad("the output '{}' of program '{}' is not one number", printable(named->name()),
                 printable(program.name()));
  return Status::ok();
}

Status Checker::checkInstruction(const plan::Instruction &instruction) {
  std::optional<uint32_t> scratch;
  if (instruction.scratch()) {
    scratch = *instruction.scratch();
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(*scratch));
    if (!inArena(slot(*scratch)) || !instruction.body_as_Attention())
      return badHere("it takes '{}' as scratch memory", slotName(*scratch));
  }
  if (const plan::Launch *launch = instruction.body_as_Launch())
    return checkLaunch(*launch);
  if (const plan::Matmul *matmul = instruction.body_as_Matmul())
    return checkMatmul(*matmul);
  if (const plan::Window *window = instruction.body_as_Window())
    return checkWindow(*window);
  if (const plan::Attention *attention = instruction.body_as_Attention())
    return checkAttention(*attention, scratch);
  if (const plan::Copy *copy = instruction.body_as_Copy())
    return checkCopy(*copy);
  return badHere("it is of an unknown type");
}

Status Checker::checkSlotIndex(uint32_t index) const {
  if (index >= plan_.slots()->size())
    return badHere("slot {} does not exist", index);
  return Status::ok();
}

Status Checker::checkWritable(uint32_t index) const {
  switch (slot(index).kind()) {
  case plan::SlotKind::Config:
  case plan::SlotKind::Input:
  case plan::SlotKind::Constant: return badHere("it writes to '{}', which programs may only read", slotName(index));
  default: return Status::ok();
  }
}

Status Checker::checkLaunch(const plan::Launch &launch) {
  if (launch.kernel() >= orEmpty(plan_.kernels()).size())
    return badHere("kernel {} does not exist", launch.kernel());
  const plan::Kernel &kernel = *plan_.kernels()->Get(launch.kernel());
  uint32_t count = launch.arguments() ? launch.arguments()->size() : 0;
  if (count != kernel.argument_count())
    return badHere("kernel '{}' takes {} arguments but gets {}", printable(kernel.symbol()), kernel.argument_count(),
                   count);
  launchArguments_ += count;
  if (launchArguments_ > kMaxLaunchArguments)
    return badHere("the launches have too many arguments in all");
  for (uint32_t i = 0; i < count; ++i) {
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(launch.arguments()->Get(i)));
    if (i >= count - kernel.result_count())
      TAPEOUT_RETURN_IF_ERROR(checkWritable(launch.arguments()->Get(i)));
  }
  if (isCuda())
    for (const plan::TensorMap *map : orEmpty(kernel.gpu()->tensor_maps()))
      TAPEOUT_RETURN_IF_ERROR(at(checkTensorMap(kernel, *map, slot(launch.arguments()->Get(map->argument())))));
  return Status::ok();
}

struct Stride {
  int64_t extent, stride;
};

/// Elements from the first to one past the last that these dimensions reach, or nothing when out of range.
std::optional<uint64_t> reach(std::initializer_list<Stride> dimensions, std::span<const Stride> batch) {
  uint64_t last = 0;
  auto add = [&](Stride dimension) {
    if (dimension.extent < 1 || dimension.extent > kMaxExtent || dimension.stride < 0)
      return false;
    std::optional<uint64_t> step = boundedProduct(dimension.extent - 1, dimension.stride);
    if (!step)
      return false;
    last += *step;
    return last <= kMaxRegionBytes;
  };
  if (!std::all_of(dimensions.begin(), dimensions.end(), add) || !std::all_of(batch.begin(), batch.end(), add))
    return std::nullopt;
  return last + 1;
}

bool Checker::overlap(uint32_t a, uint64_t aBytes, uint32_t b, uint64_t bBytes) const {
  if (inArena(slot(a)) != inArena(slot(b)))
    return false;
  return slot(a).offset() < slot(b).offset() + bBytes && slot(b).offset() < slot(a).offset() + aBytes;
}

Status Checker::checkEpilogue(const plan::Matmul &matmul) {
  const plan::Launch &epilogue = *matmul.epilogue();
  TAPEOUT_RETURN_IF_ERROR(checkLaunch(epilogue));
  bool matrix = (!matmul.batch() || matmul.batch()->size() == 0) && matmul.m() > 1 && matmul.n() > 1 &&
                matmul.c_row_stride() == matmul.n() && matmul.c_column_stride() == 1 && matmul.c_offset() == 0;
  const plan::Kernel &kernel = *plan_.kernels()->Get(epilogue.kernel());
  auto isAt = [&](uint32_t i, uint32_t slot) { return i < kernel.argument_count() && epilogue.arguments()->Get(i) == slot; };
  bool fits = isAt(0, matmul.c());
  if (isCuda()) { // (c, bias, c)
    fits = fits && kernel.argument_count() == 3 && kernel.result_count() == 1 && isAt(2, matmul.c());
    if (fits) {
      uint32_t index = epilogue.arguments()->Get(1);
      const plan::Slot &bias = slot(index), &c = slot(matmul.c());
      fits = elementCount(bias) == static_cast<uint64_t>(matmul.n()) && bias.element_type() == c.element_type() &&
             !overlap(index, bias.bytes(), matmul.c(), c.bytes());
    }
  } else {
    fits = fits && !matmul.bias() && kernel.units() == static_cast<uint64_t>(matmul.m() * epilogueUnits(matmul.n()));
  }
  if (!matrix || !fits)
    return badHere("kernel '{}' cannot be the epilogue of this matrix product", printable(kernel.symbol()));
  return Status::ok();
}

Status Checker::checkMatmul(const plan::Matmul &matmul) {
  uint32_t batchRank = matmul.batch() ? matmul.batch()->size() : 0;
  if (batchRank > maxGemmBatchDims)
    return badHere("the matrix product has {} batch dimensions, more than {}", batchRank, maxGemmBatchDims);
  if (!isAligned(matmul.batch()))
    return badHere("the batch dimensions are not aligned");
  std::vector<Stride> aBatch, bBatch, cBatch;
  for (uint32_t i = 0; i < batchRank; ++i) {
    const plan::BatchDimension &dimension = *matmul.batch()->Get(i);
    aBatch.push_back({dimension.extent(), dimension.a_stride()});
    bBatch.push_back({dimension.extent(), dimension.b_stride()});
    cBatch.push_back({dimension.extent(), dimension.c_stride()});
  }
  const std::optional<uint64_t> elements[3] = {
      reach({{matmul.m(), matmul.a_row_stride()}, {matmul.k(), matmul.a_column_stride()}}, aBatch),
      reach({{matmul.k(), matmul.b_row_stride()}, {matmul.n(), matmul.b_column_stride()}}, bBatch),
      reach({{matmul.m(), matmul.c_row_stride()}, {matmul.n(), matmul.c_column_stride()}}, cBatch)};
  const uint32_t slots[3] = {matmul.a(), matmul.b(), matmul.c()};
  const int64_t offsets[3] = {matmul.a_offset(), matmul.b_offset(), matmul.c_offset()};
  for (uint32_t slot : slots)
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(slot));
  auto typeOf = [&](int i) { return elementType(slot(slots[i])); };
  if (!isGemmTypes(typeOf(0), typeOf(1), typeOf(2)))
    return badHere("the matrix product of '{}' and '{}' into '{}' is of {}, {} and {}", slotName(slots[0]), slotName(slots[1]),
                   slotName(slots[2]), name(typeOf(0)), name(typeOf(1)), name(typeOf(2)));
  for (int i = 0; i < 3; ++i) {
    const plan::Slot &slot = this->slot(slots[i]);
    uint64_t room = slot.bytes() / elementSize(elementType(slot));
    if (!elements[i] || *elements[i] > room || offsets[i] < 0 || static_cast<uint64_t>(offsets[i]) > room - *elements[i])
      return badHere("the matrix product leaves its operand '{}'", slotName(slots[i]));
  }
  TAPEOUT_RETURN_IF_ERROR(checkWritable(matmul.c()));
  if (Status status = verifyGemm(toGemmProblem(matmul)); !status.isOk())
    return Status::error(ExitCode::BadData, fmt::format("plan: {}: {}", where_, status.message()));
  auto end = [&](int i) { return (offsets[i] + *elements[i]) * elementSize(elementType(slot(slots[i]))); };
  for (int i = 0; i < 2; ++i)
    if (overlap(slots[i], end(i), matmul.c(), end(2)))
      return badHere("the matrix product reads '{}' while it writes '{}' over it", slotName(slots[i]),
                     slotName(matmul.c()));
  if (isCuda())
    TAPEOUT_RETURN_IF_ERROR(at(checkCudaMatmul(matmul, slot(slots[0]).element_type(), slot(slots[1]).element_type(),
                                               slot(slots[2]).element_type())));
  return matmul.epilogue() ? checkEpilogue(matmul) : Status::ok();
}

/// Whether operands i and j are different parts of the rows of one tensor, as the gradients of query, key and value are.
bool areSideBySide(const plan::Attention &attention, uint32_t i, uint32_t j) {
  const plan::AttentionOperand &a = *attention.operands()->Get(i), &b = *attention.operands()->Get(j);
  int64_t row = a.token_stride();
  if (a.slot() != b.slot() || row != b.token_stride() || a.batch_stride() != b.batch_stride() || row < 1 ||
      a.batch_stride() < row * attention.tokens() || a.offset() / row != b.offset() / row)
    return false;
  auto endInRow = [&](const plan::AttentionOperand &operand, uint32_t number) {
    return operand.offset() % row + (attentionHeads(attention, number) - 1) * operand.head_stride() + attention.head_size();
  };
  int64_t aEnd = endInRow(a, i), bEnd = endInRow(b, j);
  return aEnd <= row && bEnd <= row && (aEnd <= b.offset() % row || bEnd <= a.offset() % row);
}

Status Checker::checkDropout(const plan::AttentionDropout &dropout) const {
  if (!(dropout.rate() > 0 && dropout.rate() < 1))
    return badHere("the dropout of attention is {}", dropout.rate());
  for (uint32_t number : {dropout.seed(), dropout.offset()}) {
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(number));
    if (slot(number).element_type() != plan::ElementType::I64 || slot(number).bytes() < sizeof(int64_t))
      return badHere("'{}' is no seed or offset of attention's dropout", slotName(number));
  }
  return Status::ok();
}

Status Checker::checkAttention(const plan::Attention &attention, std::optional<uint32_t> scratch) const {
  if (!isCuda())
    return badHere("attention is no instruction of the target cpu");
  uint32_t count = orEmpty(attention.operands()).size(), reads = attentionReads(attention);
  if (count != reads + (attention.backward() ? 3 : 1) || !isAligned(attention.operands()))
    return badHere("attention has {} operands", count);
  for (int64_t extent :
       {attention.batch(), attention.heads(), attention.key_heads(), attention.tokens(), attention.head_size()})
    if (extent < 1 || extent > INT32_MAX)
      return badHere("an extent of attention is {}", extent);
  if (attention.heads() % attention.key_heads() != 0)
    return badHere("attention has {} heads for {} heads of keys", attention.heads(), attention.key_heads());
  if (!std::isfinite(attention.scale()))
    return badHere("the scale of attention is not finite");
  if (attention.dropout())
    TAPEOUT_RETURN_IF_ERROR(checkDropout(*attention.dropout()));
  if (attention.nondeterministic() && !attention.backward())
    return badHere("it is the forward of attention and cannot be nondeterministic");
  struct Use {
    uint32_t slot;
    uint64_t bytes;                  // from the slot's beginning
    std::optional<uint32_t> operand; // its number
  };
  std::vector<Use> read, written;
  for (uint32_t i = 0; i < count; ++i) {
    const plan::AttentionOperand &operand = *attention.operands()->Get(i);
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(operand.slot()));
    plan::ElementType type = slot(operand.slot()).element_type();
    if ((type != plan::ElementType::BF16 && type != plan::ElementType::F16) ||
        type != slot(attention.operands()->Get(0)->slot()).element_type())
      return badHere("the operand '{}' of attention has the wrong element type", slotName(operand.slot()));
    auto elements = reach({{attention.batch(), operand.batch_stride()},
                           {attention.tokens(), operand.token_stride()},
                           {attentionHeads(attention, i), operand.head_stride()},
                           {attention.head_size(), 1}},
                          {});
    uint64_t room = slot(operand.slot()).bytes() / 2;
    if (!elements || *elements > room || operand.offset() < 0 || static_cast<uint64_t>(operand.offset()) > room - *elements)
      return badHere("attention leaves its operand '{}'", slotName(operand.slot()));
    (i < reads ? read : written).push_back({operand.slot(), 2 * (operand.offset() + *elements), i});
  }
  TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(attention.lse()));
  auto rows = reach({{attention.batch(), attention.heads() * attention.tokens()}, {attention.heads() * attention.tokens(), 1}}, {});
  if (slot(attention.lse()).element_type() != plan::ElementType::F32 || !rows ||
      *rows > slot(attention.lse()).bytes() / sizeof(float))
    return badHere("'{}' cannot hold a number for each row of attention", slotName(attention.lse()));
  (attention.backward() ? read : written).push_back({attention.lse(), *rows * sizeof(float), std::nullopt});
  if (attention.nondeterministic()) {
    const int64_t perRow = attention.head_size() + 1;
    auto sums = reach({{static_cast<int64_t>(*rows), perRow}, {perRow, 1}}, {});
    if (!scratch || !sums || *sums > slot(*scratch).bytes() / sizeof(float))
      return badHere("it has no scratch memory for the sums of nondeterministic attention");
  }
  if (attention.lengths()) {
    uint32_t lengths = *attention.lengths();
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(lengths));
    if (slot(lengths).element_type() != plan::ElementType::I32 ||
        slot(lengths).bytes() / sizeof(int32_t) < uint64_t(attention.batch()))
      return badHere("'{}' cannot hold a length for each sequence of attention", slotName(lengths));
    read.push_back({lengths, attention.batch() * sizeof(int32_t), std::nullopt});
  }
  if (const plan::AttentionDropout *dropout = attention.dropout())
    for (uint32_t number : {dropout->seed(), dropout->offset()})
      read.push_back({number, sizeof(int64_t), std::nullopt});
  if (scratch)
    written.push_back({*scratch, slot(*scratch).bytes(), std::nullopt});
  for (size_t i = 0; i < written.size(); ++i) {
    const Use &result = written[i];
    TAPEOUT_RETURN_IF_ERROR(checkWritable(result.slot));
    auto isInTheWay = [&](const Use &other) { return overlap(other.slot, other.bytes, result.slot, result.bytes); };
    for (const Use &other : read)
      if (isInTheWay(other))
        return badHere("attention writes '{}' over '{}'", slotName(result.slot), slotName(other.slot));
    for (size_t j = 0; j < i; ++j)
      if (isInTheWay(written[j]) &&
          !(result.operand && written[j].operand && areSideBySide(attention, *written[j].operand, *result.operand)))
        return badHere("attention writes '{}' over '{}'", slotName(result.slot), slotName(written[j].slot));
  }
  return Status::ok();
}

Status Checker::checkWindow(const plan::Window &window) const {
  using Function = plan::WindowFunction;
  if (isCuda())
    return badHere("convolutions and poolings do not run on cuda yet");
  if (window.function() > Function::MAX)
    return badHere("the window's function {} is unknown", static_cast<unsigned>(window.function()));
  WindowArguments arguments = argumentsOf(window.function());
  if (!window.arguments() || window.arguments()->size() != arguments.reads + arguments.writes)
    return badHere("'{}' takes {} arguments", plan::EnumNameWindowFunction(window.function()), arguments.reads + arguments.writes);
  if (Status status = verifyWindow(toConvolutionShape(window).window); !status.isOk())
    return Status::error(ExitCode::BadData, fmt::format("plan: {}: {}", where_, status.message()));
  bool pooling = window.function() >= Function::MaxPool;
  for (int64_t extent : {window.batch(), window.channels(), window.filters(), window.parts()})
    if (extent < 1 || extent > INT32_MAX)
      return badHere("an extent of the window's tensors is {}", extent);

  auto elements = [](std::initializer_list<int64_t> extents) {
    std::optional<uint64_t> product = 1;
    for (int64_t extent : extents)
      product = product ? boundedProduct(*product, extent) : product;
    return product;
  };
  auto input = elements({window.batch(), window.channels(), window.height(), window.width()});
  auto result = elements({window.batch(), pooling ? window.channels() : window.filters(), window.out_height(), window.out_width()});
  auto weight = elements({window.filters(), window.channels(), window.kernel_height(), window.kernel_width()});
  auto terms = elements({window.parts(), window.filters(), window.channels(), window.kernel_height(), window.kernel_width()});
  std::optional<uint64_t> sizes[3]; // of the arguments
  switch (window.function()) {
  case Function::Convolution: sizes[0] = input, sizes[1] = weight, sizes[2] = result; break;
  case Function::ConvolutionInputGrad: sizes[0] = result, sizes[1] = weight, sizes[2] = input; break;
  case Function::ConvolutionWeightGrad: sizes[0] = input, sizes[1] = result, sizes[2] = terms; break;
  case Function::MaxPool: sizes[0] = input, sizes[1] = result, sizes[2] = result; break;
  case Function::MaxPoolGrad: sizes[0] = result, sizes[1] = result, sizes[2] = input; break;
  case Function::AvgPool: sizes[0] = input, sizes[1] = result; break;
  case Function::AvgPoolGrad: sizes[0] = result, sizes[1] = input; break;
  }
  int64_t index = window.function() == Function::MaxPool ? 2 : window.function() == Function::MaxPoolGrad ? 0 : -1;
  for (uint32_t i = 0; i < window.arguments()->size(); ++i) {
    uint32_t number = window.arguments()->Get(i);
    TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(number));
    if (slot(number).element_type() != (int64_t(i) == index ? plan::ElementType::I32 : plan::ElementType::F32))
      return badHere("the window's operand '{}' is of another type", slotName(number));
    if (!sizes[i] || *sizes[i] > slot(number).bytes() / sizeof(float))
      return badHere("the window leaves its operand '{}'", slotName(number));
    if (i >= arguments.reads)
      TAPEOUT_RETURN_IF_ERROR(checkWritable(number));
    for (uint32_t j = arguments.reads; j < window.arguments()->size(); ++j)
      if (uint32_t other = window.arguments()->Get(j);
          j != i && other < plan_.slots()->size() && overlap(number, slot(number).bytes(), other, slot(other).bytes()))
        return badHere("the window writes '{}' over '{}'", slotName(other), slotName(number));
  }
  return Status::ok();
}

Status Checker::checkCopy(const plan::Copy &copy) const {
  TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(copy.source()));
  TAPEOUT_RETURN_IF_ERROR(checkSlotIndex(copy.destination()));
  TAPEOUT_RETURN_IF_ERROR(checkWritable(copy.destination()));
  if (copy.bytes() < 1 || copy.bytes() > slot(copy.source()).bytes() || copy.bytes() > slot(copy.destination()).bytes())
    return badHere("it copies {} bytes, none or more than '{}' or '{}' has", copy.bytes(), slotName(copy.source()),
                   slotName(copy.destination()));
  if (overlap(copy.source(), copy.bytes(), copy.destination(), copy.bytes()))
    return badHere("it copies '{}' over itself", slotName(copy.source()));
  return Status::ok();
}

} // namespace

Status checkPlan(const plan::Plan &plan) { return Checker(plan).run(); }

} // namespace tapeout::rt
