// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4), the checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace tapeout::rt {

uint32_t crc32c(std::string_view data);

/// TFRecord stores checksums of data that may hold checksums itself in this disguise.
constexpr uint32_t maskedCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

} // namespace tapeout::rt
