// Text from files that ends up in messages and file names.
#pragma once

#include <string_view>

namespace tapeout::frontend {

/// Well-formed UTF-8 (RFC 3629) without control characters, line separators or bidirectional overrides, so that a name
/// in a message cannot move the cursor, add a line or show as another name.
bool isPrintableUtf8(std::string_view text);

} // namespace tapeout::frontend
