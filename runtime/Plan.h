// The checked plan: what a training executable does, read from its plan section (runtime/plan.fbs).
//
// A plan is hostile input. Plan::load verifies the FlatBuffer and then every index, offset, size and stride
// (PlanCheck.cpp), so that the code behind it may follow them without asking again: every table that plan.fbs names
// is present (vectors may be missing, see orEmpty), every enum value is known, every instruction stays inside its
// slots.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/base/Status.h"
#include "runtime/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout::rt {

class Plan {
public:
  /// Copies `bytes`, so that nothing can change a plan after it was checked. Errors: BadData, one sentence.
  static Result<Plan> load(std::span<const uint8_t> bytes);

  const plan::Plan &root() const { return *root_; }
  const plan::Model &model() const { return *root_->model(); }
  const plan::Slot &slot(uint32_t index) const { return *root_->slots()->Get(index); }
  uint32_t slotCount() const { return root_->slots()->size(); }
  uint64_t arenaBytes() const { return root_->arena_bytes(); }
  uint64_t persistentBytes() const { return root_->persistent_bytes(); }
  uint32_t configSlot() const { return configSlot_; }

  /// Slots of one kind, in plan order.
  std::vector<uint32_t> slotsOfKind(plan::SlotKind kind) const;
  /// The program of that name, or nullptr.
  const plan::Program *program(std::string_view name) const;
  /// The default of a hyperparameter (Hyperparameters.h); nullptr when the plan's optimizer and schedule do not use it.
  const plan::Default *defaultOf(std::string_view hyperparameter) const;
  /// SHA-256 of the plan's bytes, 64 hexadecimal digits: the identity that checkpoints refer to.
  const std::string &hash() const { return hash_; }

private:
  Plan() = default;

  std::unique_ptr<uint64_t[]> bytes_; // FlatBuffers need 8-byte alignment
  const plan::Plan *root_ = nullptr;
  uint32_t configSlot_ = 0;
  std::string hash_;
};

/// FlatBuffers writers leave out empty vectors: a missing one is empty.
template <typename T> const flatbuffers::Vector<T> &orEmpty(const flatbuffers::Vector<T> *vector) {
  static constexpr flatbuffers::uoffset_t kNoElements = 0;
  return vector ? *vector : reinterpret_cast<const flatbuffers::Vector<T> &>(kNoElements);
}

using NamedSlots = flatbuffers::Vector<flatbuffers::Offset<plan::NamedSlot>>;
/// The entry of that name in a program's inputs or outputs, or nullptr.
const plan::NamedSlot *findNamed(const NamedSlots *slots, std::string_view name);

inline ElementType elementType(const plan::Slot &slot) { return static_cast<ElementType>(slot.element_type()); }
/// Number of elements of a checked slot, and their bytes (the slot itself may be longer).
uint64_t elementCount(const plan::Slot &slot);
inline uint64_t shapeBytes(const plan::Slot &slot) { return elementCount(slot) * elementSize(elementType(slot)); }
std::vector<int64_t> shapeOf(const plan::Slot &slot);
/// Whether slots of this kind are part of a checkpoint.
constexpr bool isSaved(plan::SlotKind kind) {
  return kind == plan::SlotKind::Parameter || kind == plan::SlotKind::OptimizerState || kind == plan::SlotKind::Counter;
}
/// Whether the samples of a model are windows of a token stream.
constexpr bool readsTokens(plan::Task task) {
  return task == plan::Task::LanguageModel || task == plan::Task::MaskedLanguageModel;
}
/// What a program executes: instructions by kind, their operations, and the bytes they read and write.
struct ProgramTotals {
  uint64_t launches = 0, products = 0, windows = 0, attentions = 0, nondeterministic = 0, copies = 0;
  uint64_t flops = 0, bytesMoved = 0;
};
ProgramTotals totalsOf(const plan::Program &program);
/// Operands that attention reads; lse is not among them.
inline uint32_t attentionReads(const plan::Attention &attention) { return attention.backward() ? 5 : 3; }
/// Heads of its operand `i`: keys, values and their gradients may have fewer.
inline int64_t attentionHeads(const plan::Attention &attention, uint32_t i) {
  return i == 1 || i == 2 || i == 6 || i == 7 ? attention.key_heads() : attention.heads();
}
/// A name from a file, safe to print: control characters replaced, at most 120 characters.
std::string printable(const flatbuffers::String *text);

} // namespace tapeout::rt
