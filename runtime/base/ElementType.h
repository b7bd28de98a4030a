// The element types of tensors. The numbers are those of `ElementType` in runtime/plan.fbs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tapeout {

enum class ElementType : uint8_t { F32 = 0, F64 = 1, BF16 = 2, F16 = 3, I1 = 4, I32 = 5, I64 = 6 };

constexpr size_t kElementTypeCount = 7;
constexpr std::array<std::string_view, kElementTypeCount> kElementTypeNames = {"f32", "f64", "bf16", "f16",
                                                                               "i1",  "i32", "i64"};

/// True for the seven types: a number read from a file may be none of them.
constexpr bool isValid(ElementType type) { return static_cast<size_t>(type) < kElementTypeCount; }

/// Bytes of one element in memory; an i1 takes one byte (0 or 1). `type` must be valid.
constexpr size_t elementSize(ElementType type) {
  constexpr std::array<uint8_t, kElementTypeCount> sizes = {4, 8, 2, 2, 1, 4, 8};
  return sizes[static_cast<size_t>(type)];
}

constexpr bool isFloat(ElementType type) { return static_cast<size_t>(type) <= static_cast<size_t>(ElementType::F16); }

/// MLIR's spelling: "f32", "bf16", "i1"... `type` must be valid.
constexpr std::string_view name(ElementType type) { return kElementTypeNames[static_cast<size_t>(type)]; }

/// The inverse of name().
constexpr std::optional<ElementType> parseElementType(std::string_view text) {
  for (size_t i = 0; i < kElementTypeCount; ++i)
    if (kElementTypeNames[i] == text)
      return static_cast<ElementType>(i);
  return std::nullopt;
}

} // namespace tapeout
