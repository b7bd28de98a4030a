// Where the elements of a tensor are on one axis of the device mesh, and what an op makes of it. Plain data, shared by the
// encoding attribute, the ops and the algorithms that decide placements. The kinds are those of PyTorch's DTensor and of
// GSPMD (Xu et al., 2021).
#pragma once

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace tapeout::tape {

struct AxisPlacement {
  enum class Kind : uint8_t {
    Replicate,  ///< every device of the axis has the whole value
    Shard,      ///< each device has its part of `dimension`
    PartialSum, ///< the value is the sum over the axis of what the devices have
    PartialMax, ///< the value is their maximum
  };
  Kind kind = Kind::Replicate;
  int64_t dimension = 0; ///< Shard only

  bool operator==(const AxisPlacement &) const = default;
};

inline constexpr AxisPlacement kReplicate{};
inline constexpr AxisPlacement kPartialSum{AxisPlacement::Kind::PartialSum};
inline constexpr AxisPlacement kPartialMax{AxisPlacement::Kind::PartialMax};
constexpr AxisPlacement shard(int64_t dimension) { return {AxisPlacement::Kind::Shard, dimension}; }

/// One way in which the devices of an axis may run an op, each on what it has: with operands placed like this, the
/// results are placed like that. Shapes are those that one device sees: the whole value of a shard is the
/// concatenation over the axis.
struct PlacementRule {
  llvm::SmallVector<AxisPlacement, 4> operands; ///< one per operand
  llvm::SmallVector<AxisPlacement, 2> results;  ///< one per result

  bool operator==(const PlacementRule &) const = default;
};
using PlacementRules = llvm::SmallVectorImpl<PlacementRule>;

inline llvm::hash_code hash_value(const AxisPlacement &placement) {
  return llvm::hash_combine(static_cast<uint8_t>(placement.kind), placement.dimension);
}

} // namespace tapeout::tape
