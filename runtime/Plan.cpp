#include "runtime/Plan.h"

#include "runtime/PlanCheck.h"
#include "runtime/base/Sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tapeout::rt {

static_assert(static_cast<int>(plan::ElementType::MAX) + 1 == kElementTypeCount);

namespace {

constexpr size_t kMaxPlanBytes = FLATBUFFERS_MAX_BUFFER_SIZE - 1;
constexpr size_t kMinPlanBytes = 12;
constexpr flatbuffers::uoffset_t kMaxDepth = 16;
constexpr flatbuffers::uoffset_t kMaxTables = 8'000'000;
constexpr size_t kMaxPrintedName = 120;

} // namespace

Result<Plan> Plan::load(std::span<const uint8_t> bytes) {
  if (bytes.size() < kMinPlanBytes || bytes.size() > kMaxPlanBytes)
    return Status::error(ExitCode::BadData,
                         fmt::format("plan: {} bytes cannot be a plan; compile the model again", bytes.size()));
  Plan result;
  result.bytes_ = std::make_unique<uint64_t[]>((bytes.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  auto *copy = reinterpret_cast<uint8_t *>(result.bytes_.get());
  std::memcpy(copy, bytes.data(), bytes.size());

  if (!plan::PlanBufferHasIdentifier(copy))
    return Status::error(ExitCode::BadData,
                         "plan: the bytes are not a plan, or one of another version; compile the model "
                         "again with the tapeout that this runner belongs to");
  flatbuffers::Verifier verifier(copy, bytes.size(), kMaxDepth, kMaxTables);
  if (!plan::VerifyPlanBuffer(verifier))
    return Status::error(ExitCode::BadData, "plan: its structure is damaged; compile the model again");
  result.root_ = plan::GetPlan(copy);
  TAPEOUT_RETURN_IF_ERROR(checkPlan(*result.root_));
  result.configSlot_ = result.slotsOfKind(plan::SlotKind::Config).front();
  result.hash_ = toHex(sha256(bytes));
  return result;
}

std::vector<uint32_t> Plan::slotsOfKind(plan::SlotKind kind) const {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < slotCount(); ++i)
    if (slot(i).kind() == kind)
      found.push_back(i);
  return found;
}

const plan::Program *Plan::program(std::string_view name) const {
  for (const plan::Program *program : orEmpty(root_->programs()))
    if (program->name()->string_view() == name)
      return program;
  return nullptr;
}

const plan::Default *Plan::defaultOf(std::string_view hyperparameter) const {
  for (const plan::Default *entry : orEmpty(root_->defaults()))
    if (entry->name()->string_view() == hyperparameter)
      return entry;
  return nullptr;
}

const plan::NamedSlot *findNamed(const NamedSlots *slots, std::string_view name) {
  for (const plan::NamedSlot *named : orEmpty(slots))
    if (named->name()->string_view() == name)
      return named;
  return nullptr;
}

uint64_t elementCount(const plan::Slot &slot) {
  uint64_t count = 1;
  if (slot.shape())
    for (int64_t extent : *slot.shape())
      count *= static_cast<uint64_t>(extent);
  return count;
}

std::vector<int64_t> shapeOf(const plan::Slot &slot) {
  if (!slot.shape())
    return {};
  return {slot.shape()->begin(), slot.shape()->end()};
}

ProgramTotals totalsOf(const plan::Program &program) {
  ProgramTotals totals;
  for (const plan::Instruction *instruction : orEmpty(program.instructions())) {
    plan::InstructionBody body = instruction->body_type();
    totals.launches += body == plan::InstructionBody::Launch;
    totals.products += body == plan::InstructionBody::Matmul;
    totals.windows += body == plan::InstructionBody::Window;
    totals.attentions += body == plan::InstructionBody::Attention;
    if (const plan::Attention *attention = instruction->body_as_Attention())
      totals.nondeterministic += attention->nondeterministic();
    totals.copies += body == plan::InstructionBody::Copy;
    totals.flops += instruction->flops();
    totals.bytesMoved += instruction->bytes_moved();
  }
  return totals;
}

std::string printable(const flatbuffers::String *text) {
  if (!text)
    return "";
  std::string result = text->str().substr(0, kMaxPrintedName);
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return result;
}

} // namespace tapeout::rt
