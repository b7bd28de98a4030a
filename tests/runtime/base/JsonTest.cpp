#include "runtime/base/Json.h"

#include <gtest/gtest.h>

using namespace tapeout;

namespace {

std::string messageOf(std::string_view text, const JsonLimits &limits = {}) {
  Result<nlohmann::json> result = parseJson(text, "x.json", limits);
  EXPECT_FALSE(result.isOk()) << text;
  EXPECT_EQ(result.status().code(), ExitCode::BadData);
  return result.status().message();
}

TEST(Json, ReadsWhatNlohmannReads) {
  for (const char *text : {R"({"a": [1, -2, 3.5, true, null, {}], "b": {"c": "\u00e9\n", "d": []}})", "[]", "7",
                           "\"s\"", R"([[1, [2]], {"k": [{"k": 1}]}, 18446744073709551615])"}) {
    Result<nlohmann::json> result = parseJson(text, "x.json");
    ASSERT_TRUE(result.isOk()) << result.status().message();
    EXPECT_EQ(*result, nlohmann::json::parse(text));
  }
}

TEST(Json, DuplicateKeysAreRefusedInOneObjectOnly) {
  EXPECT_EQ(messageOf("{\"a\": 1,\n \"a\": 2}"),
            "'x.json' is not acceptable JSON at line 2, column 4: the key \"a\" appears twice in one object");
  EXPECT_TRUE(parseJson(R"({"a": {"a": 1}, "b": {"a": 1}})", "x.json").isOk());
}

TEST(Json, SyntaxErrorsGiveThePosition) {
  EXPECT_NE(messageOf("{\"a\": 1,\n\n  oops}").find("line 3, column 3: syntax error"), std::string::npos);
  for (const char *text : {"", "{", "[1,]", "[1] 2", "{'a': 1}", "nul", "\"\x80\"", "1e999", "NaN", "[1 // c\n]"})
    EXPECT_NE(messageOf(text).find("line "), std::string::npos);
}

TEST(Json, MessagesHaveNoControlCharactersAndAreShort) {
  std::string message =
      messageOf("{\"\\u001b[31m" + std::string(5000, 'k') + "\": 1, \"\\u001b[31m" + std::string(5000, 'k') + "\": 2}");
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(messageOf("[\"" + std::string(100'000, 'x')).size(), 300u);
}

TEST(Json, DepthIsLimitedWithoutRecursion) {
  JsonLimits limits = {.depth = 3};
  EXPECT_TRUE(parseJson("[[[1]]]", "x.json", limits).isOk());
  EXPECT_NE(messageOf("[[[[1]]]]", limits).find("deeper than 3"), std::string::npos);
  EXPECT_NE(messageOf(R"({"a":{"a":{"a":{}}}})", limits).find("deeper than 3"), std::string::npos);
  EXPECT_NE(messageOf(std::string(1'000'000, '[')).find("deeper than 64"), std::string::npos);
}

TEST(Json, ValuesAndBytesAreLimited) {
  EXPECT_TRUE(parseJson("[1,2,3]", "x.json", {.values = 4}).isOk());
  EXPECT_NE(messageOf("[1,2,3]", {.values = 3}).find("more than 3 values"), std::string::npos);
  EXPECT_TRUE(parseJson("[1]", "x.json", {.bytes = 3}).isOk());
  EXPECT_NE(messageOf("[1] ", {.bytes = 3}).find("4 bytes"), std::string::npos);
}

} // namespace
