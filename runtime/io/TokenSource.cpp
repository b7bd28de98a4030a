// Token streams for language models.
//
// A file that begins with llm.c's magic is one of its shards: 256 int32 (magic, version, token count, zeros), then the
// tokens as uint16. Any other file is raw bytes, one token each, for models whose vocabulary is 256, or whose mask token
// is none of the bytes. Several files are joined into one stream. Sample i of an epoch is the window of context + 1
// tokens from offset + i * context; windows overlap by the one token that is the last label of one and the first input of
// the next. Masked language models guess tokens of the window itself (Masking.h): theirs have context tokens. With
// shuffle the offset is a function of (seed, epoch), so that windows shift between epochs; without, it is 0. The rest of
// the stream behind the last whole window, fewer than context tokens, is left out.
#include "runtime/base/AtomicFile.h"
#include "runtime/io/Masking.h"
#include "runtime/io/Permutation.h"
#include "runtime/io/SampleSource.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tapeout::rt {

namespace {

constexpr size_t kHeaderBytes = 256 * 4;
constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kVersion = 1;
/// Up to so much is checked before the first step (a fraction of a second); windows are always checked when read.
constexpr uint64_t kTokensCheckedAtStart = uint64_t{1} << 27;

struct TokenFile {
  MappedFile file;
  size_t dataOffset;   ///< in the file, bytes
  size_t tokenBytes;   ///< 1 or 2
  uint64_t firstToken; ///< in the joined stream
  uint64_t tokens;

  uint32_t token(uint64_t index) const {
    const uint8_t *bytes = file.bytes().data() + dataOffset + index * tokenBytes;
    return tokenBytes == 1 ? bytes[0] : bytes[0] | bytes[1] << 8;
  }
};

template <typename T> void store(std::span<uint8_t> destination, uint64_t index, int64_t token) {
  T value = static_cast<T>(token);
  std::memcpy(destination.data() + index * sizeof(T), &value, sizeof(T));
}

void storeToken(ElementType type, std::span<uint8_t> destination, uint64_t index, int64_t token) {
  type == ElementType::I32 ? store<int32_t>(destination, index, token) : store<int64_t>(destination, index, token);
}

Status badData(std::string message) { return Status::error(ExitCode::BadData, std::move(message)); }

uint32_t readWord(const MappedFile &file, size_t index) {
  uint32_t word;
  std::memcpy(&word, file.bytes().data() + index * sizeof(word), sizeof(word));
  return word;
}

bool isMasked(const DataSpec &spec) { return spec.task == DataTask::MaskedLanguageModel; }

/// Whether raw bytes are tokens of the model.
bool takesBytes(const DataSpec &spec) { return isMasked(spec) ? spec.maskToken >= 256 : spec.vocabulary == 256; }

/// Checks the header and says where the tokens are.
Result<TokenFile> openTokenFile(const std::string &path, const DataSpec &spec, uint64_t firstToken) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return file.status();
  size_t size = file->size();
  if (size == 0)
    return badData(fmt::format("{}: the file is empty; give a file with text or tokens", path));
  constexpr std::string_view kNpyMagic = "\x93NUMPY";
  if (size >= kNpyMagic.size() && std::memcmp(file->bytes().data(), kNpyMagic.data(), kNpyMagic.size()) == 0)
    return badData(fmt::format("{}: this is a .npy array, but a language model reads text or token shards of llm.c; write the "
                               "tokens as one of these", path));
  if (size < 4 || readWord(*file, 0) != kMagic) {
    if (!takesBytes(spec))
      return badData(
          fmt::format("{}: this is not a token shard of llm.c (256 int32 with the magic {} first, then uint16 "
                      "tokens), and raw bytes are tokens only for a model with {}, but this one "
                      "has {}; tokenize the text first",
                      path, kMagic, isMasked(spec) ? "a mask token from 256 on" : "vocabulary 256",
                      isMasked(spec) ? spec.maskToken : spec.vocabulary));
    return TokenFile{std::move(*file), 0, 1, firstToken, size};
  }
  if (size < kHeaderBytes)
    return badData(
        fmt::format("{}: the token shard is truncated: its header has {} bytes, but the file only {}; copy or "
                    "make it again",
                    path, kHeaderBytes, size));
  if (uint32_t version = readWord(*file, 1); version != kVersion)
    return badData(fmt::format("{}: the token shard has version {}, but only version {} is read; make it again with "
                               "llm.c's scripts",
                               path, version, kVersion));
  uint64_t tokens = readWord(*file, 2);
  uint64_t dataBytes = size - kHeaderBytes;
  if (dataBytes != tokens * 2)
    return badData(
        fmt::format("{}: the token shard is {}: its header promises {} tokens ({} bytes), but {} bytes follow; "
                    "copy or make it again",
                    path, dataBytes < tokens * 2 ? "truncated" : "too long", tokens, tokens * 2, dataBytes));
  if (tokens == 0)
    return badData(fmt::format("{}: the token shard holds no tokens; give another file", path));
  return TokenFile{std::move(*file), kHeaderBytes, 2, firstToken, tokens};
}

class TokenSource final : public SampleSource {
public:
  TokenSource(const DataSpec &spec, InputRoles roles, std::vector<TokenFile> files)
      : path_(spec.dataPath), context_(static_cast<uint64_t>(spec.context)), vocabulary_(spec.vocabulary),
        seed_(spec.seed), shuffle_(spec.shuffle), dataType_(spec.inputs[roles.data].type),
        labelsType_(spec.inputs[roles.labels].type), files_(std::move(files)),
        tokens_(files_.back().firstToken + files_.back().tokens), window_(context_ + 1) {
    if (isMasked(spec)) {
      window_ = context_;
      uint64_t key = shuffle_ ? seed_ : 0; // an evaluation asks every run for the same tokens
      masking_.emplace(key, static_cast<uint32_t>(spec.vocabulary), static_cast<uint32_t>(spec.maskToken));
      ignored_ = spec.ignoreIndex;
    }
  }

  uint64_t tokens() const { return tokens_; }

  uint64_t samplesInEpoch(uint64_t epoch) const override { return (tokens_ - (window_ - context_) - offset(epoch)) / context_; }

  Status read(uint64_t epoch, uint64_t index, std::span<uint8_t> data, std::span<uint8_t> labels) const override {
    uint64_t first = offset(epoch) + index * context_;
    auto file = fileOf(first);
    for (uint64_t i = 0; i < window_; ++i) {
      while (first + i >= file->firstToken + file->tokens)
        ++file;
      uint32_t token = file->token(first + i - file->firstToken);
      if (token >= vocabulary_)
        return badToken(*file, first + i - file->firstToken);
      if (masking_) {
        Masking::Position masked = (*masking_)(epoch, index, static_cast<uint32_t>(i), token);
        storeToken(dataType_, data, i, masked.shown);
        storeToken(labelsType_, labels, i, masked.isChosen ? int64_t{token} : ignored_);
        continue;
      }
      if (i < context_)
        storeToken(dataType_, data, i, token);
      if (i > 0)
        storeToken(labelsType_, labels, i - 1, token);
    }
    return Status::ok();
  }

  std::string description() const override { return fmt::format("{}: {} tokens", path_, tokens_); }

  /// Finds a bad token before any time is spent on training, unless looking would take long itself.
  Status checkAtStart() const {
    if (tokens_ > kTokensCheckedAtStart)
      return Status::ok();
    for (const TokenFile &file : files_)
      for (uint64_t i = 0; file.tokenBytes == 2 && i < file.tokens; ++i)
        if (file.token(i) >= vocabulary_)
          return badToken(file, i);
    return Status::ok();
  }

private:
  uint64_t offset(uint64_t epoch) const {
    uint64_t choices = std::min(context_, tokens_ - window_ + 1); // every one leaves at least one window
    return shuffle_ ? epochRandom(seed_, epoch) % choices : 0;
  }

  std::vector<TokenFile>::const_iterator fileOf(uint64_t token) const {
    return std::prev(std::upper_bound(files_.begin(), files_.end(), token,
                                      [](uint64_t value, const TokenFile &file) { return value < file.firstToken; }));
  }

  Status badToken(const TokenFile &file, uint64_t index) const {
    return badData(
        fmt::format("{}: token {} (counted from 0) has the id {}, but the model's vocabulary has {} entries; use "
                    "the tokenizer of the model or a model with a larger vocabulary",
                    file.file.path(), index, file.token(index), vocabulary_));
  }

  std::string path_;
  uint64_t context_;
  uint64_t vocabulary_;
  uint64_t seed_;
  bool shuffle_;
  ElementType dataType_;
  ElementType labelsType_;
  std::vector<TokenFile> files_; ///< not empty, none of them empty
  uint64_t tokens_;
  uint64_t window_; ///< tokens that one sample reads
  std::optional<Masking> masking_;
  int64_t ignored_ = 0; ///< the label of what is not masked
};

Status checkSpec(const DataSpec &spec, InputRoles roles) {
  if (spec.context <= 0 || spec.vocabulary <= 0)
    return Status::error(ExitCode::BadConfig,
                         fmt::format("a language model needs a positive context and vocabulary, but "
                                     "the plan has {} and {}; compile the model again",
                                     spec.context, spec.vocabulary));
  if (isMasked(spec) && (spec.maskToken < 0 || spec.maskToken >= spec.vocabulary))
    return Status::error(ExitCode::BadConfig,
                         fmt::format("the mask token {} is not in the vocabulary of {}; compile the model again",
                                     spec.maskToken, spec.vocabulary));
  for (size_t index : {roles.data, roles.labels}) {
    const BatchInput &input = spec.inputs[index];
    bool integer = input.type == ElementType::I32 || input.type == ElementType::I64;
    uint64_t elements = input.bytes / static_cast<uint64_t>(spec.batch) / elementSize(input.type);
    if (!integer || elements != static_cast<uint64_t>(spec.context))
      return Status::error(ExitCode::BadConfig,
                           fmt::format("the input '{}' takes {} elements of {} per sample, but tokens are {} of i32 or "
                                       "i64; compile the model again",
                                       input.name, elements, name(input.type), spec.context));
  }
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<SampleSource>> openTokenSource(const DataSpec &spec, InputRoles roles) {
  TAPEOUT_RETURN_IF_ERROR(checkSpec(spec, roles));
  std::vector<TokenFile> files;
  uint64_t tokens = 0;
  for (size_t start = 0; start <= spec.dataPath.size();) {
    size_t end = std::min(spec.dataPath.find(',', start), spec.dataPath.size());
    Result<TokenFile> file = openTokenFile(spec.dataPath.substr(start, end - start), spec, tokens);
    if (!file.isOk())
      return file.status();
    tokens += file->tokens;
    files.push_back(std::move(*file));
    start = end + 1;
  }
  uint64_t least = static_cast<uint64_t>(spec.context) + (isMasked(spec) ? 0 : 1);
  if (tokens < least)
    return badData(
        fmt::format("{}: {} tokens are fewer than one sample of {} (the context{}); give more data "
                    "or a model with a shorter context",
                    spec.dataPath, tokens, least, isMasked(spec) ? "" : " and one label"));
  auto source = std::make_unique<TokenSource>(spec, roles, std::move(files));
  TAPEOUT_RETURN_IF_ERROR(source->checkAtStart());
  return std::unique_ptr<SampleSource>(std::move(source));
}

} // namespace tapeout::rt
