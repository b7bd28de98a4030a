#include "frontend/ModelFile.h"

#include "frontend/VerifyGraph.h"
#include "frontend/WeightsFile.h"
#include "frontend/model_generated.h"
#include "runtime/base/AtomicFile.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>
#include <string_view>

namespace tapeout::frontend {
namespace {

constexpr const char *kRemedy = "write it again with 'tapeout model' or 'tapeout import'";

//===- Graph to bytes ---------------------------------------------------------------------------------------------===//

/// The enumerators of the file and of Graph.h have equal numbers.
template <typename To, typename From> To convert(From value) { return static_cast<To>(static_cast<uint8_t>(value)); }

/// Every offset is made in a statement of its own: the order of arguments is the compiler's choice, and so would be the
/// bytes of the file.
class Encoder {
public:
  std::span<const uint8_t> encode(const Graph &graph) {
    const auto name = text(graph.name);
    const auto inputs = encodeAll<file::Input>(graph.inputs);
    const auto parameters = encodeAll<file::Parameter>(graph.parameters);
    const auto nodes = encodeAll<file::Node>(graph.nodes);
    const auto weightsFile = graph.weightsFile.empty() ? 0 : text(graph.weightsFile);
    builder_.Finish(file::CreateModel(builder_, kModelFormatVersion, name, convert<file::Task>(graph.task), inputs,
                                      parameters, nodes, graph.output, graph.context, graph.vocabulary,
                                      graph.ignoreIndex, weightsFile, graph.maskToken),
                    file::ModelIdentifier());
    return {builder_.GetBufferPointer(), builder_.GetSize()};
  }

private:
  flatbuffers::Offset<flatbuffers::String> text(const std::string &value) { return builder_.CreateString(value); }

  template <typename Table, typename Item>
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<Table>>> encodeAll(const std::vector<Item> &items) {
    std::vector<flatbuffers::Offset<Table>> tables;
    for (const Item &item : items)
      tables.push_back(encode(item));
    return builder_.CreateVector(tables);
  }

  flatbuffers::Offset<file::TensorType> encode(const TensorType &type) {
    const auto shape = builder_.CreateVector(type.shape);
    return file::CreateTensorType(builder_, convert<file::ElementType>(type.element), shape);
  }

  flatbuffers::Offset<file::Initializer> encode(const Initializer &initializer) {
    const auto tensor = initializer.tensor.empty() ? 0 : text(initializer.tensor);
    return file::CreateInitializer(builder_, convert<file::InitializerKind>(initializer.kind), initializer.a,
                                   initializer.b, tensor);
  }

  flatbuffers::Offset<file::Input> encode(const Input &input) {
    const auto name = text(input.name);
    return file::CreateInput(builder_, name, encode(input.type));
  }

  flatbuffers::Offset<file::Parameter> encode(const Parameter &parameter) {
    const auto name = text(parameter.name);
    const auto type = encode(parameter.type);
    return file::CreateParameter(builder_, name, type, encode(parameter.initializer));
  }

  flatbuffers::Offset<file::Node> encode(const Node &node) {
    const auto op = text(node.op);
    const auto name = text(node.name);
    const auto operands = builder_.CreateVector(node.operands);
    const auto attributes = encodeAll<file::Attribute>(node.attributes);
    return file::CreateNode(builder_, op, name, operands, node.resultCount, attributes);
  }

  flatbuffers::Offset<file::Attribute> encode(const std::pair<std::string, Attribute> &named) {
    const auto &[key, value] = named;
    const auto name = text(key);
    flatbuffers::Offset<flatbuffers::String> string;
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> integers;
    if (const auto *held = std::get_if<std::string>(&value))
      string = text(*held);
    if (const auto *held = std::get_if<std::vector<int64_t>>(&value))
      integers = builder_.CreateVector(*held);
    file::AttributeBuilder attribute(builder_);
    attribute.add_name(name);
    attribute.add_kind(convert<file::AttributeKind>(value.index())); // the variant has the order of AttributeKind
    if (const auto *held = std::get_if<int64_t>(&value))
      attribute.add_integer(*held);
    if (const auto *held = std::get_if<double>(&value))
      attribute.add_real(*held);
    if (const auto *held = std::get_if<bool>(&value))
      attribute.add_boolean(*held);
    if (!string.IsNull())
      attribute.add_text(string);
    if (!integers.IsNull())
      attribute.add_integers(integers);
    return attribute.Finish();
  }

  flatbuffers::FlatBufferBuilder builder_;
};

//===- Bytes to graph ---------------------------------------------------------------------------------------------===//

/// Copies what the FlatBuffers verifier has found readable. A small file can name one long text many times, so the
/// decoder counts what it copies and stops at the limit; the first problem is kept, the rest is not looked at.
class Decoder {
public:
  Result<Graph> decode(const file::Model &model) {
    Graph graph;
    graph.name = text(model.name());
    graph.task = enumerator<Task>(model.task(), file::Task::MAX, "the task");
    forEach(model.inputs(), [&](const file::Input &input) {
      graph.inputs.push_back({text(input.name()), decode(*input.type())});
    });
    forEach(model.parameters(), [&](const file::Parameter &parameter) {
      graph.parameters.push_back({text(parameter.name()), decode(*parameter.type()), decode(*parameter.initializer())});
    });
    forEach(model.nodes(), [&](const file::Node &node) { graph.nodes.push_back(decode(node)); });
    graph.output = model.output();
    graph.context = model.context();
    graph.vocabulary = model.vocabulary();
    graph.ignoreIndex = model.ignore_index();
    graph.maskToken = model.mask_token();
    graph.weightsFile = text(model.weights_file());
    if (!problem_.empty())
      return Status::error(ExitCode::BadData, problem_);
    return graph;
  }

private:
  template <typename Table, typename Body>
  void forEach(const flatbuffers::Vector<flatbuffers::Offset<Table>> *tables, Body body) {
    for (flatbuffers::uoffset_t i = 0; tables && i < tables->size() && problem_.empty(); ++i)
      body(*tables->Get(i));
  }

  void fail(std::string problem) {
    if (problem_.empty())
      problem_ = std::move(problem);
  }

  bool mayCopy(uint64_t bytes) {
    copiedBytes_ += bytes;
    if (copiedBytes_ > limits::kContentBytes)
      fail(fmt::format("its names, shapes and attributes take more than {} bytes", limits::kContentBytes));
    return problem_.empty();
  }

  std::string text(const flatbuffers::String *string) {
    return string && mayCopy(string->size()) ? string->str() : std::string();
  }

  template <typename T> std::vector<T> list(const flatbuffers::Vector<T> *vector) {
    const size_t bytes = vector ? size_t{vector->size()} * sizeof(T) : 0;
    if (bytes == 0 || !mayCopy(bytes))
      return {};
    // The verifier does not ask 8-byte elements to be aligned, so they must not be read in place.
    std::vector<T> copy(vector->size());
    std::memcpy(copy.data(), vector->Data(), bytes);
    return copy;
  }

  template <typename To, typename From> To enumerator(From value, From last, std::string_view what) {
    if (value > last)
      fail(fmt::format("{} has the unknown number {}", what, static_cast<int>(value)));
    return value > last ? To{} : convert<To>(value);
  }

  TensorType decode(const file::TensorType &type) {
    return {enumerator<ElementType>(type.element(), file::ElementType::MAX, "an element type"), list(type.shape())};
  }

  Initializer decode(const file::Initializer &initializer) {
    return {enumerator<Initializer::Kind>(initializer.kind(), file::InitializerKind::MAX, "the kind of an initializer"),
            initializer.a(), initializer.b(), text(initializer.tensor())};
  }

  Node decode(const file::Node &node) {
    Node decoded{text(node.op()), text(node.name()), list(node.operands()), node.result_count(), {}};
    forEach(node.attributes(), [&](const file::Attribute &attribute) {
      decoded.attributes.emplace_back(text(attribute.name()), decode(attribute));
    });
    return decoded;
  }

  Attribute decode(const file::Attribute &attribute) {
    switch (attribute.kind()) {
    case file::AttributeKind::Integer:
      return attribute.integer();
    case file::AttributeKind::Real:
      return attribute.real();
    case file::AttributeKind::Boolean:
      return attribute.boolean();
    case file::AttributeKind::Text:
      return text(attribute.text());
    case file::AttributeKind::Integers:
      return list(attribute.integers());
    }
    fail(fmt::format("the kind of an attribute has the unknown number {}", static_cast<int>(attribute.kind())));
    return Attribute();
  }

  uint64_t copiedBytes_ = 0;
  std::string problem_;
};

static_assert(std::endian::native == std::endian::little, "lists are copied as they are in the file");
static_assert(static_cast<int>(file::ElementType::MAX) == static_cast<int>(ElementType::I64));
static_assert(static_cast<int>(file::InitializerKind::MAX) == static_cast<int>(Initializer::Kind::External));
static_assert(static_cast<int>(file::Task::MAX) == static_cast<int>(Task::MaskedLanguageModel));
static_assert(static_cast<size_t>(file::AttributeKind::MAX) + 1 == std::variant_size_v<Attribute>);

Status badModel(const std::string &path, std::string_view problem, std::string_view remedy = kRemedy) {
  return Status::error(ExitCode::BadData, fmt::format("model file '{}': {}; {}", path, problem, remedy));
}

} // namespace

Status writeModel(const Graph &graph, const std::string &path) {
  const Status verified = verifyGraph(graph);
  if (!verified.isOk())
    return badModel(path, verified.message(), "the file was not written");
  Encoder encoder;
  const std::span<const uint8_t> bytes = encoder.encode(graph);
  return writeFile(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

Result<Graph> readModel(const std::string &path) {
  // A copy and not a mapping: another process may change the file between the checks and the use.
  Result<std::string> read = readFile(path, limits::kFileBytes);
  if (!read.isOk())
    return read.status();
  const auto *bytes = reinterpret_cast<const uint8_t *>(read->data());
  constexpr size_t kSmallest = 2 * sizeof(flatbuffers::uoffset_t); // root and identifier
  if (read->size() < kSmallest || !file::ModelBufferHasIdentifier(bytes))
    return badModel(path, "this is not a Tapeout model file");

  const flatbuffers::uoffset_t depth = 8; // a model has 3 levels of tables
  flatbuffers::Verifier headerVerifier(bytes, read->size(), depth, limits::kTables + 1);
  if (!headerVerifier.VerifyBuffer<file::Header>(file::ModelIdentifier()))
    return badModel(path, "the file is damaged or cut off at its header");
  const uint32_t version = flatbuffers::GetRoot<file::Header>(bytes)->format_version();
  if (version != kModelFormatVersion)
    return badModel(path, fmt::format("the file has format version {}, but this build reads version {}", version,
                                      kModelFormatVersion));
  flatbuffers::Verifier verifier(bytes, read->size(), depth, limits::kTables + 1);
  if (!verifier.VerifyBuffer<file::Model>(file::ModelIdentifier()))
    return badModel(path, "the file is damaged, cut off or too large");

  Result<Graph> graph = Decoder().decode(*flatbuffers::GetRoot<file::Model>(bytes));
  const Status verified = graph.isOk() ? verifyGraph(*graph) : graph.status();
  if (!verified.isOk())
    return badModel(path, verified.message());
  if (!graph->weightsFile.empty()) {
    const Result<WeightsFile> weights = openWeights(*graph, path);
    if (!weights.isOk())
      return weights.status();
  }
  return graph;
}

} // namespace tapeout::frontend
