// JSON from untrusted sources: limits on size, depth and number of values, and no duplicate keys.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>

namespace tapeout {

struct JsonLimits {
  size_t bytes = size_t{64} << 20;
  size_t depth = 64;         ///< nested arrays and objects
  size_t values = 1'000'000; ///< numbers, strings, booleans, nulls, arrays and objects together
};

/// `name` is what the message calls the text, usually its file. Errors: BadData, with line and column (in bytes).
Result<nlohmann::json> parseJson(std::string_view text, std::string_view name, const JsonLimits &limits = {});

} // namespace tapeout
