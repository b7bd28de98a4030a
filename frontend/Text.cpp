#include "frontend/Text.h"

#include <cstddef>
#include <cstdint>

namespace tapeout::frontend {
namespace {

bool isPrintable(uint32_t c) {
  const bool isControl = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool isSurrogate = c >= 0xd800 && c < 0xe000;
  const bool isSeparator = c == 0x2028 || c == 0x2029;
  const bool isInvisible = (c >= 0x200b && c <= 0x200f) || c == 0xfeff;
  const bool isDirection = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return !isControl && !isSurrogate && !isSeparator && !isInvisible && !isDirection && c <= 0x10ffff;
}

} // namespace

bool isPrintableUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const uint8_t lead = static_cast<uint8_t>(text[i++]);
    const int continuations = lead < 0x80   ? 0
                              : lead < 0xc0 ? -1
                              : lead < 0xe0 ? 1
                              : lead < 0xf0 ? 2
                              : lead < 0xf8 ? 3
                                            : -1;
    if (continuations < 0)
      return false;
    uint32_t c = continuations == 0 ? lead : lead & (0x3fu >> continuations);
    for (int j = 0; j < continuations; ++j) {
      if (i == text.size() || (static_cast<uint8_t>(text[i]) & 0xc0) != 0x80)
        return false;
      c = c << 6 | (static_cast<uint8_t>(text[i++]) & 0x3f);
    }
    // The shortest form only: two spellings of a character would pass for two names.
    constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    if (c < kSmallest[continuations] || !isPrintable(c))
      return false;
  }
  return true;
}

} // namespace tapeout::frontend
