// Where the elements of a tensor are on one axis of the device mesh. Plain data, shared by the encoding attribute and by
// the algorithms that decide placements.
#pragma once

#include "llvm/ADT/Hashing.h"

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

inline llvm::hash_code hash_value(const AxisPlacement &placement) {
  return llvm::hash_combine(static_cast<uint8_t>(placement.kind), placement.dimension);
}

} // namespace tapeout::tape
