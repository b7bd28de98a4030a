#include "runtime/io/Crc32c.h"

#include <array>

namespace tapeout::rt {

static constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> table = makeTable();
  uint32_t crc = ~0u;
  for (char character : data)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(character)) & 0xff];
  return ~crc;
}

} // namespace tapeout::rt
