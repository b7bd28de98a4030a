// What the kernels of GeluProduct.cpp are specialised by, and the boxes of their tensor maps: shared by the compiler,
// the runtime's maps and the kernels.
#pragma once

#include <stdint.h>

namespace tapeout::codegen {

/// result [tokens, features] of tokens [tokens, inner] and weights.
struct GeluProductSizes {
  int32_t tokens, features, inner;
};

// A tile of the result, and how many of the inner numbers lie in shared memory at once. `features` and `inner` are
// multiples of these, `tokens` is any number.
constexpr int kProductFeatures = 128, kProductTokens = 160, kProductInner = 64;

constexpr int kProductGroups = 2; // warpgroups that compute; one more copies
constexpr int kProductThreads = 128 * (kProductGroups + 1);

/// A box that a tensor map copies: so many rows of so many elements, swizzled by 128 bytes.
struct ProductBox {
  int32_t rows, columns;
};
constexpr ProductBox kWeightsByFeatureBox = {kProductFeatures, kProductInner}; // weights [features, inner]
constexpr ProductBox kWeightsByInnerBox = {kProductInner, 64};                 // weights [inner, features]
constexpr ProductBox kProductTokensBox = {kProductTokens / 2, kProductInner};  // [tokens, inner]
constexpr ProductBox kProductResultBox = {kProductTokens, 64};                 // [tokens, features]: results, slope

} // namespace tapeout::codegen
