#include "runtime/io/NpyFile.h"

#include "tests/runtime/io/TestFiles.h"

#include <gtest/gtest.h>

#include <random>

namespace tapeout::rt {
namespace {

using namespace test;

Result<NpyHeader> parse(const std::string &file) {
  return parseNpyHeader({reinterpret_cast<const uint8_t *>(file.data()), file.size()}, "x.npy");
}

Status errorOf(const std::string &file) {
  Result<NpyHeader> header = parse(file);
  return header.isOk() ? Status::ok() : header.status();
}

Status errorOfHeader(const std::string &dictionary) { return errorOf(npy(dictionary, std::string(24, '\0'))); }

TEST(NpyFile, ReadsWhatNumpyWrites) {
  // numpy.save of numpy.array([1, 2, 3], '<i8'), byte for byte.
  std::string file =
      std::string("\x93NUMPY\x01\x00v\x00", 10) + "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
  file += std::string(127 - file.size(), ' ') + "\n" + bytesOf(std::vector<int64_t>{1, 2, 3});
  Result<NpyHeader> header = parse(file);
  ASSERT_TRUE(header.isOk()) << header.status().message();
  EXPECT_EQ(header->type, NpyType::I64);
  EXPECT_EQ(header->shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(header->elements, 3u);
  EXPECT_EQ(header->dataOffset, 128u);
}

TEST(NpyFile, ReadsAllTypesAndShapes) {
  EXPECT_EQ(parse(npy(npyHeader("<f4", "(2, 3)"), std::string(24, 'x')))->type, NpyType::F32);
  EXPECT_EQ(parse(npy(npyHeader("<f8", "(3,)"), std::string(24, 'x')))->type, NpyType::F64);
  EXPECT_EQ(parse(npy(npyHeader("<i4", "(1, 6, 1)"), std::string(24, 'x')))->type, NpyType::I32);
  EXPECT_EQ(parse(npy(npyHeader("|u1", "(24)"), std::string(24, 'x')))->type, NpyType::U8);
  EXPECT_EQ(parse(npy(npyHeader("<f8", "()"), std::string(8, 'x')))->elements, 1u);
  EXPECT_EQ(parse(npy(npyHeader("<f8", "(0, 5)"), ""))->elements, 0u);
}

TEST(NpyFile, ReadsVersion2) {
  std::string dictionary = npyHeader("|u1", "(4,)") + "\n";
  std::string length = {static_cast<char>(dictionary.size()), 0, 0, 0};
  Result<NpyHeader> header = parse(std::string("\x93NUMPY\x02\x00", 8) + length + dictionary + "abcd");
  ASSERT_TRUE(header.isOk()) << header.status().message();
  EXPECT_EQ(header->dataOffset, 12 + dictionary.size());
}

TEST(NpyFile, RefusesOtherFiles) {
  expectError(errorOf(""), ExitCode::BadData, {"x.npy", "not a .npy file"});
  expectError(errorOf("PK\x03\x04 a zip archive"), ExitCode::BadData, {"not a .npy file"});
  expectError(errorOf(std::string("\x93NUMPY\x03\x00\x10\x00", 10)), ExitCode::BadData, {"version is 3.0"});
  expectError(errorOf(std::string("\x93NUMPY\x02\x00\x10\x00", 10)), ExitCode::BadData, {"ends inside"});
  expectError(errorOf(std::string("\x93NUMPY\x01\x00\xff\xff", 10) + "{}"), ExitCode::BadData, {"ends inside"});
  expectError(errorOf(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)), ExitCode::BadData, {"4294967295 bytes"});
}

TEST(NpyFile, RefusesBadHeaders) {
  for (const char *dictionary :
       {"", "{", "{}", "{'descr': '<f8'}", "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3 3), }",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 'x', }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999999,), }", "{'descr': '<f8"})
    expectError(errorOfHeader(dictionary), ExitCode::BadData, {"x.npy", "malformed"});
  expectError(errorOfHeader(npyHeader(">f8", "(3,)")), ExitCode::BadData, {"'>f8'", "astype"});
  expectError(errorOfHeader(npyHeader("|O", "(3,)")), ExitCode::BadData, {"'|O'"});
  expectError(errorOfHeader("{'descr': '<f8', 'fortran_order': True, 'shape': (3,), }"), ExitCode::BadData,
              {"Fortran", "ascontiguousarray"});
}

TEST(NpyFile, RefusesSizesThatDoNotFit) {
  expectError(errorOfHeader(npyHeader("<f8", "(4,)")), ExitCode::BadData, {"truncated", "32 bytes", "24"});
  expectError(errorOfHeader(npyHeader("<f8", "(2,)")), ExitCode::BadData, {"too long"});
  // 2^32 * 2^32 * 3 elements are 3 when they overflow.
  expectError(errorOfHeader(npyHeader("<f8", "(4294967296, 4294967296, 3)")), ExitCode::BadData, {"more elements"});
  expectError(errorOfHeader(npyHeader("<f8", "(281474976710656, 281474976710656)")), ExitCode::BadData,
              {"more elements"});
}

TEST(NpyFile, SurvivesAnyDamage) {
  std::string good = npy(npyHeader("<f8", "(3,)"), std::string(24, 'x'));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good.substr(0, i % 2 ? good.size() : random() % good.size());
    for (size_t flips = 0; !bad.empty() && flips <= random() % 3; ++flips)
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    Result<NpyHeader> header = parse(bad);
    if (header.isOk()) {
      EXPECT_EQ(header->dataOffset + header->elements * sizeOf(header->type), bad.size());
    }
  }
}

} // namespace
} // namespace tapeout::rt
