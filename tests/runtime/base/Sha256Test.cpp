#include "runtime/base/Sha256.h"

#include <gtest/gtest.h>

#include <string_view>

using namespace tapeout;

namespace {

std::string hexOf(std::string_view text) {
  return toHex(sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()}));
}

// The examples of FIPS 180-4.
TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(hexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hexOf(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the block and padding borders, in two pieces split anywhere.
TEST(Sha256, PiecesDoNotMatter) {
  std::string text;
  for (size_t length = 0; length <= 130; ++length, text += static_cast<char>(length * 7)) {
    for (size_t split = 0; split <= length; ++split) {
      Sha256 hash;
      hash.update(text.data(), split);
      hash.update(text.data() + split, length - split);
      ASSERT_EQ(toHex(hash.finish()), hexOf(text)) << length << " " << split;
    }
  }
}

} // namespace
