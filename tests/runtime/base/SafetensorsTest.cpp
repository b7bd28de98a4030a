#include "runtime/base/Safetensors.h"
#include "tests/runtime/base/TestFolder.h"

#include <cstring>

using namespace tapeout;

namespace {

using SafetensorsTest = TestFolder;

std::string fileOf(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

Result<Safetensors> parseText(const std::string &file) {
  return Safetensors::parse({reinterpret_cast<const uint8_t *>(file.data()), file.size()}, "w.safetensors");
}

TEST_F(SafetensorsTest, RoundTripKeepsOrderShapesBytesAndMetadata) {
  std::vector<TensorDeclaration> declared = {
      {"z.weight", TensorType::F32, {2, 3}},   {"count", TensorType::I64, {}},  {"none", TensorType::F64, {4, 0}},
      {"a \"quoted\"", TensorType::BF16, {3}}, {"mask", TensorType::Bool, {2}}, {"byte", TensorType::U8, {1}}};
  std::string data(24 + 8 + 6 + 2 + 1, '\0');
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<char>(i + 1);
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path("w"), declared, {{"step", "7"}, {"format", "tapeout"}});
  ASSERT_TRUE(writer.isOk()) << writer.status().message();
  ASSERT_TRUE(writer->write(data.data(), 5).isOk() && writer->write(data.data() + 5, data.size() - 5).isOk());
  ASSERT_TRUE(writer->commit().isOk());

  Result<Safetensors> read = Safetensors::open(path("w"));
  ASSERT_TRUE(read.isOk()) << read.status().message();
  Safetensors file = std::move(*read);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "tapeout"}, {"step", "7"}}));
  ASSERT_EQ(file.tensors().size(), declared.size());
  std::string joined;
  for (size_t i = 0; i < declared.size(); ++i) {
    const TensorEntry &entry = file.tensors()[i];
    EXPECT_EQ(entry.name, declared[i].name);
    EXPECT_EQ(entry.type, declared[i].type);
    EXPECT_EQ(entry.shape, declared[i].shape);
    EXPECT_EQ(file.find(entry.name), &entry);
    std::span<const uint8_t> bytes = file.data(entry);
    joined.append(bytes.begin(), bytes.end());
  }
  EXPECT_EQ(joined, data);
  EXPECT_EQ(file.find("w"), nullptr);
}

TEST_F(SafetensorsTest, BytesOfTheFormat) {
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path("w"), {{"b", TensorType::F16, {1}}, {"a", TensorType::U8, {}}}, {{"k", "v"}});
  ASSERT_TRUE(writer.isOk() && writer->write("xyz", 3).isOk() && writer->commit().isOk());
  std::string header = R"({"__metadata__":{"k":"v"},"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},)"
                       R"("a":{"dtype":"U8","shape":[],"data_offsets":[2,3]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(get("w"), fileOf(header, "xyz"));
}

TEST_F(SafetensorsTest, WriterWantsExactlyTheDeclaredBytes) {
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path("w"), {{"a", TensorType::F32, {2}}});
  ASSERT_TRUE(writer.isOk() && writer->write("1234567", 7).isOk());
  EXPECT_NE(writer->commit().message().find("1 bytes"), std::string::npos);
  EXPECT_EQ(writer->write("89", 2).code(), ExitCode::WriteFailed);
  EXPECT_FALSE(std::filesystem::exists(path("w")));
}

TEST_F(SafetensorsTest, WriterRefusesBadDeclarations) {
  int64_t huge = int64_t{1} << 40;
  std::vector<std::vector<TensorDeclaration>> bad = {{{"a", TensorType::F32, {1}}, {"a", TensorType::F32, {1}}},
                                                     {{"__metadata__", TensorType::F32, {1}}},
                                                     {{"a", TensorType::F32, {-1, -1}}},
                                                     {{"a", TensorType::F32, {huge, huge}}},
                                                     {{"a", TensorType::U8, {INT64_MAX}}, {"b", TensorType::U8, {1}}},
                                                     {{"\xff", TensorType::F32, {1}}}};
  for (const std::vector<TensorDeclaration> &tensors : bad)
    EXPECT_EQ(SafetensorsWriter::create(path("w"), tensors).status().code(), ExitCode::WriteFailed);
  EXPECT_EQ(fileCount(), 0u);
}

TEST_F(SafetensorsTest, TensorsMayBeListedInAnyOrder) {
  std::string text = fileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                            R"("b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}  )",
                            "xyz");
  Result<Safetensors> file = parseText(text);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->data(*file->find("a"))[1], 'z');
  EXPECT_TRUE(parseText(fileOf("{}", "")).isOk());
}

struct Malformed {
  const char *header;
  const char *reason; ///< a part of the message
};

// Each with four bytes of data.
constexpr Malformed kMalformed[] = {
    {R"( {"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "does not start with '{'"},
    {R"([1])", "does not start with '{'"},
    {R"({"a":)", "JSON"},
    {R"({})", "4 bytes behind"},
    {R"({"a":7})", "must have dtype"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", "must have dtype"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "nothing else"},
    {R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", "not a string"},
    {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "\"F8_E4M3\" is not supported"},
    {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "must be an array"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "array of two"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "dimension"},
    {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "dimension"},
    {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", "dimension"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "too large"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "ascending"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "ascending"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "needs 8 bytes"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "truncated"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]}})", "begins at byte"},
    {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
     "begins at byte 1"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     "begins at byte 2"},
    {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     "appears twice"},
    {R"({"__metadata__":[],"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "__metadata__"},
    {R"({"__metadata__":{"k":1},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "\"k\" is not a string"},
    {R"({"a":{"dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4]}})", "deeper"},
};

TEST_F(SafetensorsTest, MalformedFilesAreRefusedWithTheReason) {
  for (const Malformed &malformed : kMalformed) {
    Result<Safetensors> file = parseText(fileOf(malformed.header, "data"));
    ASSERT_FALSE(file.isOk()) << malformed.header;
    EXPECT_EQ(file.status().code(), ExitCode::BadData);
    EXPECT_NE(file.status().message().find("'w.safetensors'"), std::string::npos);
    EXPECT_NE(file.status().message().find(malformed.reason), std::string::npos) << file.status().message();
  }
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  std::string file = fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "data");
  ASSERT_TRUE(parseText(file).isOk());
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(parseText(file.substr(0, size)).isOk()) << size;
  EXPECT_FALSE(parseText(file + "x").isOk());
}

TEST_F(SafetensorsTest, HeaderLengthIsCheckedBeforeUse) {
  std::string largest = fileOf("{}", ""), beyondTheFile = largest;
  largest.replace(0, 8, 8, '\xff');
  beyondTheFile[0] = 3;
  for (const std::string &file : {largest, beyondTheFile})
    EXPECT_NE(parseText(file).status().message().find("header length"), std::string::npos);
}

TEST_F(SafetensorsTest, ElementTypesMapBothWays) {
  for (uint8_t i = 0; i < kElementTypeCount; ++i) {
    ElementType type = static_cast<ElementType>(i);
    EXPECT_EQ(toElementType(toTensorType(type)), type);
    EXPECT_EQ(elementSize(toTensorType(type)), elementSize(type));
  }
  EXPECT_EQ(toElementType(TensorType::U8), std::nullopt);
  EXPECT_EQ(name(TensorType::Bool), "BOOL");
}

} // namespace
