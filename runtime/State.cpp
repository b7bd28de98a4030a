#include "runtime/State.h"

#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tapeout::rt {
namespace {

constexpr int64_t kElementsPerTask = 1 << 16; // even: random numbers come in pairs
constexpr size_t kListedNames = 20;
constexpr double kMaxExactInteger = 9007199254740992.0; // 2^53

double loadElement(ElementType type, const void *source) {
  auto load = [&](auto value) {
    std::memcpy(&value, source, sizeof value);
    return value;
  };
  switch (type) {
  case ElementType::F32: return load(float());
  case ElementType::F64: return load(double());
  case ElementType::BF16: return bfloat16ToFloat(load(uint16_t()));
  case ElementType::F16: return halfToFloat(load(uint16_t()));
  case ElementType::I1: return load(uint8_t());
  case ElementType::I32: return load(int32_t());
  case ElementType::I64: return static_cast<double>(load(int64_t()));
  }
  return 0;
}

/// Rounds once. `type` is a floating-point type.
void storeElement(ElementType type, uint8_t *destination, double value) {
  auto store = [&](auto rounded) { std::memcpy(destination, &rounded, sizeof rounded); };
  switch (type) {
  case ElementType::F32: return store(static_cast<float>(value));
  case ElementType::F64: return store(value);
  case ElementType::BF16: return store(doubleToBfloat16(value));
  case ElementType::F16: return store(doubleToHalf(value));
  default: return;
  }
}

/// Calls body(first, count) for pieces of [0, elements) on all threads.
template <typename Body> void forElements(Executor &executor, uint64_t elements, const Body &body) {
  int64_t total = static_cast<int64_t>(elements);
  int64_t tasks = (total + kElementsPerTask - 1) / kElementsPerTask;
  executor.pool().parallelFor(tasks, 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin * kElementsPerTask;
    body(first, std::min(total, end * kElementsPerTask) - first);
  });
}

Status convert(Executor &executor, const uint8_t *source, ElementType from, uint32_t slotIndex) {
  const plan::Slot &slot = executor.plan().slot(slotIndex);
  ElementType to = elementType(slot);
  return executor.write(slotIndex, [&](std::span<uint8_t> bytes) {
    if (from == to)
      return std::copy_n(source, shapeBytes(slot), bytes.begin()), void();
    forElements(executor, elementCount(slot), [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i)
        storeElement(to, bytes.data() + i * elementSize(to), loadElement(from, source + i * elementSize(from)));
    });
  });
}

std::string shapeText(const std::vector<int64_t> &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// What is wrong with a set of tensors compared with the slots that need them: one sentence for all of it.
class Differences {
public:
  void missing(std::string name) { missing_.push_back(std::move(name)); }
  void mismatched(std::string text) { mismatched_.push_back(std::move(text)); }
  void unknown(std::string name) { unknown_.push_back(std::move(name)); }

  Status status(const std::string &path, const char *remedy) const {
    std::string text;
    auto add = [&](const char *word, const std::vector<std::string> &names) {
      if (names.empty())
        return;
      size_t listed = std::min(names.size(), kListedNames);
      text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", names.size(), word,
                          fmt::join(names.begin(), names.begin() + listed, ", "));
      if (listed < names.size())
        text += fmt::format(" and {} more", names.size() - listed);
    };
    add("missing", missing_);
    add("of another shape or type", mismatched_);
    add("unknown", unknown_);
    if (text.empty())
      return Status::ok();
    return Status::error(ExitCode::BadData,
                         fmt::format("{}: its tensors do not fit this model ({}); {}", path, text, remedy));
  }

private:
  std::vector<std::string> missing_, mismatched_, unknown_;
};

Status initializeEmbedded(Executor &executor, uint32_t index, const Safetensors *weights) {
  const plan::Slot &slot = executor.plan().slot(index);
  const TensorEntry *entry = weights ? weights->find(slot.name()->string_view()) : nullptr;
  std::optional<ElementType> from = entry ? toElementType(entry->type) : std::nullopt;
  if (!from || !isFloat(*from) || entry->shape != shapeOf(slot))
    return Status::error(ExitCode::BadData,
                         fmt::format("the embedded weights lack the parameter '{}' or have it in another shape; "
                                     "compile the model again",
                                     printable(slot.name())));
  return convert(executor, weights->data(*entry).data(), *from, index);
}

/// Elements [first, first + count) of a parameter whose recipe needs nothing but numbers.
void fillByRecipe(const plan::Initializer &recipe, uint64_t seed, ElementType type, uint8_t *bytes, int64_t first,
                  int64_t count) {
  uint8_t *destination = bytes + first * elementSize(type);
  RandomStream stream{seed, recipe.stream()};
  switch (recipe.kind()) {
  case plan::InitializerKind::Normal:
    (void)stream.fillNormal(type, destination, first, count, recipe.a(), recipe.b());
    return;
  case plan::InitializerKind::Uniform:
    (void)stream.fillUniform(type, destination, first, count, recipe.a(), recipe.b());
    return;
  default:
    double value = recipe.kind() == plan::InitializerKind::Ones ? 1 : recipe.a();
    for (int64_t i = 0; i < count; ++i)
      storeElement(type, destination + i * elementSize(type), value);
  }
}

/// Copies of parameters in low precision follow from the parameters.
Status fillCopies(Executor &executor) {
  const plan::Program *prepare = executor.plan().program("prepare");
  return prepare ? executor.run(*prepare) : Status::ok();
}

Status initialize(Executor &executor, uint32_t index, const Safetensors *weights, uint64_t seed) {
  const plan::Slot &slot = executor.plan().slot(index);
  const plan::Initializer &recipe = *slot.initializer();
  if (recipe.kind() == plan::InitializerKind::Embedded)
    return initializeEmbedded(executor, index, weights);
  if (recipe.kind() == plan::InitializerKind::Zeros)
    return executor.clear(index);
  return executor.write(index, [&](std::span<uint8_t> bytes) {
    forElements(executor, elementCount(slot), [&](int64_t first, int64_t count) {
      fillByRecipe(recipe, seed, elementType(slot), bytes.data(), first, count);
    });
  });
}

Status initializeConstant(Executor &executor, uint32_t index) {
  const flatbuffers::Vector<uint8_t> &constant = *executor.plan().slot(index).constant();
  return executor.write(index, [&](std::span<uint8_t> bytes) { std::copy(constant.begin(), constant.end(), bytes.begin()); });
}

} // namespace

Status checkHyperparameter(const std::string &name, double value, const std::string &origin) {
  auto found = std::find(kHyperparameterNames.begin(), kHyperparameterNames.end(), name);
  auto bad = [&](const char *range) {
    return Status::error(ExitCode::BadConfig, fmt::format("{}: {} is out of range; give {}", origin, value, range));
  };
  if (found == kHyperparameterNames.end())
    return Status::error(ExitCode::BadConfig, fmt::format("{}: there is no hyperparameter '{}'", origin, name));
  if (!std::isfinite(value) || value < 0)
    return bad("a finite number that is not negative");
  switch (static_cast<Hyperparameter>(found - kHyperparameterNames.begin())) {
  case Hyperparameter::Beta1:
  case Hyperparameter::Beta2:
  case Hyperparameter::Momentum: return value < 1 ? Status::ok() : bad("a number of at least 0 and below 1");
  case Hyperparameter::MinLearningRateRatio: return value <= 1 ? Status::ok() : bad("a number from 0 to 1");
  case Hyperparameter::Schedule:
    return value == std::floor(value) && value <= 2 ? Status::ok() : bad("constant (0), linear (1) or cosine (2)");
  case Hyperparameter::WarmupSteps:
  case Hyperparameter::TotalSteps:
  case Hyperparameter::Seed:
    return value == std::floor(value) && value < kMaxExactInteger ? Status::ok() : bad("an integer below 2^53");
  default: return Status::ok();
  }
}

HyperparameterValues defaultHyperparameters(const Plan &plan) {
  HyperparameterValues values;
  for (const plan::Default *entry : orEmpty(plan.root().defaults()))
    values[entry->name()->str()] = entry->value();
  return values;
}

Status writeConfig(Executor &executor, const HyperparameterValues &values) {
  std::array<double, kConfigSlotLength> config = {};
  for (size_t i = 0; i < kHyperparameterCount; ++i)
    if (auto value = values.find(std::string(kHyperparameterNames[i])); value != values.end())
      config[i] = value->second;
  return executor.write(executor.plan().configSlot(),
                        [&](std::span<uint8_t> bytes) { std::memcpy(bytes.data(), config.data(), sizeof config); });
}

Status initializeState(Executor &executor, std::span<const uint8_t> weights, uint64_t seed) {
  const Plan &plan = executor.plan();
  std::optional<Safetensors> embedded;
  if (!weights.empty()) {
    Result<Safetensors> parsed = Safetensors::parse(weights, "the embedded weights");
    if (!parsed.isOk())
      return parsed.status();
    embedded.emplace(std::move(*parsed));
  }
  for (uint32_t i = 0; i < plan.slotCount(); ++i) {
    const plan::Slot &slot = plan.slot(i);
    if (slot.kind() == plan::SlotKind::Constant)
      TAPEOUT_RETURN_IF_ERROR(initializeConstant(executor, i));
    else if (slot.kind() != plan::SlotKind::Arena)
      TAPEOUT_RETURN_IF_ERROR(executor.clear(i));
    if (slot.initializer() && isSaved(slot.kind()))
      TAPEOUT_RETURN_IF_ERROR(initialize(executor, i, embedded ? &*embedded : nullptr, seed));
  }
  return fillCopies(executor);
}

Status importParameters(Executor &executor, const std::string &path) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file.isOk())
    return file.status();
  const Plan &plan = executor.plan();
  std::vector<uint32_t> parameters = plan.slotsOfKind(plan::SlotKind::Parameter);
  Differences differences;
  std::map<std::string_view, uint32_t> wanted;
  for (uint32_t index : parameters) {
    const plan::Slot &slot = plan.slot(index);
    wanted[slot.name()->string_view()] = index;
    const TensorEntry *entry = file->find(slot.name()->string_view());
    std::optional<ElementType> type = entry ? toElementType(entry->type) : std::nullopt;
    if (!entry)
      differences.missing(printable(slot.name()));
    else if (!type || !isFloat(*type) || entry->shape != shapeOf(slot))
      differences.mismatched(fmt::format("{} ({} {} instead of {})", printable(slot.name()), name(entry->type),
                                         shapeText(entry->shape), shapeText(shapeOf(slot))));
  }
  for (const TensorEntry &entry : file->tensors())
    if (!wanted.contains(entry.name))
      differences.unknown(entry.name);
  TAPEOUT_RETURN_IF_ERROR(differences.status(path, "give a file with exactly the parameters that --describe lists"));
  for (uint32_t index : parameters) {
    const TensorEntry &entry = *file->find(plan.slot(index).name()->string_view());
    TAPEOUT_RETURN_IF_ERROR(convert(executor, file->data(entry).data(), *toElementType(entry.type), index));
  }
  return fillCopies(executor);
}

Status exportParameters(Executor &executor, const std::string &path) {
  const Plan &plan = executor.plan();
  std::vector<uint32_t> parameters = plan.slotsOfKind(plan::SlotKind::Parameter);
  // Wide types first: readers that want aligned tensors can then map the file.
  std::stable_sort(parameters.begin(), parameters.end(), [&](uint32_t a, uint32_t b) {
    return elementSize(elementType(plan.slot(a))) > elementSize(elementType(plan.slot(b)));
  });
  std::vector<TensorDeclaration> declarations;
  for (uint32_t index : parameters) {
    const plan::Slot &slot = plan.slot(index);
    declarations.push_back({slot.name()->str(), toTensorType(elementType(slot)), shapeOf(slot)});
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, declarations, {{"format", "pt"}});
  if (!writer.isOk())
    return writer.status();
  for (uint32_t index : parameters) {
    Result<SlotBytes> bytes = executor.read(index);
    if (!bytes.isOk())
      return bytes.status();
    TAPEOUT_RETURN_IF_ERROR(writer->write(bytes->get().data(), bytes->get().size()));
  }
  return writer->commit();
}

Result<CheckpointState> checkpointState(Executor &executor) {
  CheckpointState state;
  for (uint32_t i = 0; i < executor.plan().slotCount(); ++i) {
    const plan::Slot &slot = executor.plan().slot(i);
    if (!isSaved(slot.kind()))
      continue;
    Result<SlotBytes> bytes = executor.read(i);
    if (!bytes.isOk())
      return bytes.status();
    state.tensors.push_back({slot.name()->str(), elementType(slot), shapeOf(slot), bytes->get()});
    state.slots.push_back(std::move(*bytes));
  }
  return state;
}

Status restoreState(Executor &executor, const LoadedCheckpoint &checkpoint) {
  const Plan &plan = executor.plan();
  std::map<std::string_view, const CheckpointTensor *> saved;
  for (const CheckpointTensor &tensor : checkpoint.tensors)
    saved[tensor.name] = &tensor;
  std::vector<std::pair<uint32_t, const CheckpointTensor *>> wanted;
  Differences differences;
  for (uint32_t i = 0; i < plan.slotCount(); ++i) {
    const plan::Slot &slot = plan.slot(i);
    if (!isSaved(slot.kind()))
      continue;
    auto found = saved.find(slot.name()->string_view());
    if (found == saved.end()) {
      differences.missing(slot.name()->str());
      continue;
    }
    const CheckpointTensor &tensor = *found->second;
    if (tensor.type != elementType(slot) || tensor.shape != shapeOf(slot) || tensor.bytes.size() != shapeBytes(slot))
      differences.mismatched(tensor.name);
    wanted.emplace_back(i, &tensor);
    saved.erase(found);
  }
  for (const auto &[name, tensor] : saved)
    differences.unknown(tensor->name);
  TAPEOUT_RETURN_IF_ERROR(differences.status(checkpoint.path, "resume with the executable that wrote it"));
  for (const auto &[slot, tensor] : wanted)
    TAPEOUT_RETURN_IF_ERROR(executor.write(slot, [source = tensor->bytes](std::span<uint8_t> bytes) {
      std::copy(source.begin(), source.end(), bytes.begin());
    }));
  return fillCopies(executor);
}

std::optional<double> readOutput(const Executor &executor, const plan::Program &program, std::string_view name,
                                 unsigned ago) {
  const plan::NamedSlot *output = findNamed(program.outputs(), name);
  if (!output)
    return std::nullopt;
  return loadElement(elementType(executor.plan().slot(output->slot())), executor.scalar(output->slot(), ago));
}

} // namespace tapeout::rt
