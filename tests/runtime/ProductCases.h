// What tapeout-gpu-test checks of our own kernels for products around a GELU; gpu-product-plans compiles it.
#pragma once

#include "runtime/base/ElementType.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::rt::test {

/// y = gelu(x w + b), d = gelu'(x w + b) * (dy v), db = the sums of the columns of d. x [rows, depth], dy [rows,
/// gradientDepth]; w and v [features, depth], or, `featuresLast`, [depth, features].
struct ProductKernelCase {
  tapeout::ElementType type;
  const char *approximate; ///< of gelu: tanh or none
  int64_t rows, features, depth, gradientDepth;
  bool featuresLast;

  std::string text() const {
    return fmt::format("{} gelu {} [{}, {}] of {} and {}{}", name(type), approximate, rows, features, depth,
                       gradientDepth, featuresLast ? ", features last" : "");
  }
  std::string fileName() const {
    return fmt::format("product-{}-{}-{}x{}x{}x{}{}.plan", name(type), approximate, rows, features, depth,
                       gradientDepth, featuresLast ? "-last" : "");
  }
};

/// Enough tiles for a GPU. Rows that fill tiles of 160 and that do not; one step of the depth and many.
inline std::vector<ProductKernelCase> productKernelCases() {
  using Type = tapeout::ElementType;
  return {{Type::BF16, "tanh", 24640, 512, 128, 256, false}, {Type::BF16, "tanh", 25001, 512, 192, 64, true},
          {Type::BF16, "none", 25001, 512, 64, 768, false},  {Type::BF16, "none", 28321, 384, 768, 128, true},
          {Type::F16, "tanh", 28321, 384, 128, 128, false},  {Type::F16, "none", 24801, 512, 128, 192, true}};
}

} // namespace tapeout::rt::test
