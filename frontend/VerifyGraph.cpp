#include "frontend/VerifyGraph.h"

#include "frontend/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tapeout::frontend {
namespace {

template <typename... Args> Status bad(fmt::format_string<Args...> format, Args &&...args) {
  return Status::error(ExitCode::BadData, fmt::format(format, std::forward<Args>(args)...));
}

/// "node 3 ('blocks.0')", or without the name when it cannot be printed.
std::string place(std::string_view kind, size_t index, const std::string &name) {
  if (name.empty() || name.size() > limits::kNameBytes || !isPrintableUtf8(name))
    return fmt::format("{} {}", kind, index);
  return fmt::format("{} {} ('{}')", kind, index, name);
}

bool isIdentifier(std::string_view text) {
  return !text.empty() && text.size() <= limits::kNameBytes && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status verifyName(const std::string &owner, const std::string &name) {
  if (name.empty())
    return bad("{} has no name", owner);
  if (name.size() > limits::kNameBytes)
    return bad("{} has a name of {} bytes, more than {}", owner, name.size(), limits::kNameBytes);
  if (!isPrintableUtf8(name))
    return bad("{} has a name that is not printable UTF-8", owner);
  return Status::ok();
}

class GraphVerifier {
public:
  explicit GraphVerifier(const Graph &graph) : graph_(graph) {}

  Status run() {
    TAPEOUT_RETURN_IF_ERROR(verifyCounts());
    TAPEOUT_RETURN_IF_ERROR(verifyName("the model", graph_.name));
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      TAPEOUT_RETURN_IF_ERROR(verifyInput(i));
    for (size_t i = 0; i < graph_.parameters.size(); ++i)
      TAPEOUT_RETURN_IF_ERROR(verifyParameter(i));
    TAPEOUT_RETURN_IF_ERROR(verifyUniqueNames());
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      TAPEOUT_RETURN_IF_ERROR(verifyNode(i));
    if (graph_.output >= values_)
      return bad("the output is value {}, but there are only {} values", graph_.output, values_);
    TAPEOUT_RETURN_IF_ERROR(verifyTask());
    TAPEOUT_RETURN_IF_ERROR(verifyWeightsFile());
    if (contentBytes_ > limits::kContentBytes)
      return bad("its names, shapes and attributes take {} bytes, more than {}", contentBytes_, limits::kContentBytes);
    return Status::ok();
  }

private:
  Status verifyCounts() {
    if (graph_.inputs.empty())
      return bad("the model has no input");
    const size_t named = graph_.inputs.size() + graph_.parameters.size();
    if (named > limits::kNamedTensors)
      return bad("it has {} inputs and parameters, more than {}", named, limits::kNamedTensors);
    // A type, and an initializer, are tables of their own.
    size_t tables = 2 * graph_.inputs.size() + 3 * graph_.parameters.size() + graph_.nodes.size();
    for (const Node &node : graph_.nodes)
      tables += node.attributes.size();
    if (tables > limits::kTables)
      return bad("it has more than {} inputs, parameters, nodes and attributes", limits::kTables);
    return Status::ok();
  }

  /// Sets `bytes` to the size at batch 1.
  Status verifyType(const std::string &owner, const TensorType &type, bool mayHaveBatch, uint64_t &bytes) {
    contentBytes_ += type.shape.size() * sizeof(int64_t);
    if (type.shape.size() > limits::kRank)
      return bad("{} has {} dimensions, more than {}", owner, type.shape.size(), limits::kRank);
    bytes = elementSize(type.element);
    for (size_t i = 0; i < type.shape.size(); ++i) {
      const int64_t extent = type.shape[i];
      if (extent == kBatch && i == 0 && mayHaveBatch)
        continue;
      if (extent == kBatch)
        return bad("dimension {} of {} is the batch, which only the first dimension of an input may be", i, owner);
      if (extent <= 0)
        return bad("dimension {} of {} is {}, but it must be positive", i, owner, extent);
      if (static_cast<uint64_t>(extent) > limits::kTensorBytes / bytes)
        return bad("{} takes more than {} bytes", owner, limits::kTensorBytes);
      bytes *= static_cast<uint64_t>(extent);
    }
    return Status::ok();
  }

  Status verifyInput(size_t index) {
    const Input &input = graph_.inputs[index];
    const std::string owner = place("input", index, input.name);
    contentBytes_ += input.name.size();
    TAPEOUT_RETURN_IF_ERROR(verifyName(owner, input.name));
    if (input.name == "labels")
      return bad("{} has the name of the labels, which every compiled model gets by itself", owner);
    uint64_t bytes = 0;
    return verifyType(owner, input.type, /*mayHaveBatch=*/true, bytes);
  }

  Status verifyParameter(size_t index) {
    const Parameter &parameter = graph_.parameters[index];
    const std::string owner = place("parameter", index, parameter.name);
    contentBytes_ += parameter.name.size();
    TAPEOUT_RETURN_IF_ERROR(verifyName(owner, parameter.name));
    if (parameter.name == "__metadata__")
      return bad("{} has the one name that a safetensors file cannot give to a tensor", owner);
    uint64_t bytes = 0;
    TAPEOUT_RETURN_IF_ERROR(verifyType(owner, parameter.type, /*mayHaveBatch=*/false, bytes));
    parameterBytes_ += bytes;
    if (parameterBytes_ > limits::kTensorBytes)
      return bad("with {} the parameters take more than {} bytes", owner, limits::kTensorBytes);
    return verifyInitializer(owner, parameter);
  }

  Status verifyInitializer(const std::string &owner, const Parameter &parameter) {
    const Initializer &initializer = parameter.initializer;
    const bool isRandom =
        initializer.kind == Initializer::Kind::Normal || initializer.kind == Initializer::Kind::Uniform;
    contentBytes_ += initializer.tensor.size();
    if (!std::isfinite(initializer.a) || !std::isfinite(initializer.b))
      return bad("{} starts from a number that is not finite", owner);
    if (isRandom && !isFloat(parameter.type.element))
      return bad("{} starts from random numbers, but its elements are {}", owner, name(parameter.type.element));
    if (initializer.kind == Initializer::Kind::Normal && initializer.b < 0)
      return bad("{} starts with the negative standard deviation {}", owner, initializer.b);
    if (initializer.kind == Initializer::Kind::Uniform &&
        !(initializer.a <= initializer.b && std::isfinite(initializer.b - initializer.a)))
      return bad("{} starts from the empty or endless range [{}, {})", owner, initializer.a, initializer.b);
    const bool isExternal = initializer.kind == Initializer::Kind::External;
    if (isExternal && graph_.weightsFile.empty())
      return bad("{} starts from a weights file, but the model names none", owner);
    if (isExternal)
      return verifyName(fmt::format("the tensor that {} starts from", owner), initializer.tensor);
    if (!initializer.tensor.empty())
      return bad("{} names a tensor of the weights file, but does not start from it", owner);
    return Status::ok();
  }

  Status verifyUniqueNames() {
    std::vector<std::string_view> names;
    for (const Input &input : graph_.inputs)
      names.push_back(input.name);
    for (const Parameter &parameter : graph_.parameters)
      names.push_back(parameter.name);
    values_ = names.size();
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      return bad("two inputs or parameters have the name '{}'", *twice);
    return Status::ok();
  }

  Status verifyNode(size_t index) {
    const Node &node = graph_.nodes[index];
    const std::string owner = place("node", index, node.name);
    contentBytes_ += node.name.size() + node.op.size() + node.operands.size() * sizeof(uint32_t);
    TAPEOUT_RETURN_IF_ERROR(verifyName(owner, node.name));
    if (!isIdentifier(node.op))
      return bad("{} has an op name that is not made of a-z, 0-9 and _", owner);
    for (uint32_t operand : node.operands)
      if (operand >= values_)
        return bad("{} uses value {}, but only values below {} exist before it", owner, operand, values_);
    if (node.resultCount == 0 || node.resultCount > limits::kTables - values_)
      return bad("{} has {} results, but it must have at least one and the model at most {} values", owner,
                 node.resultCount, limits::kTables);
    values_ += node.resultCount;
    return verifyAttributes(owner, node);
  }

  Status verifyAttributes(const std::string &owner, const Node &node) {
    if (node.attributes.size() > limits::kAttributes)
      return bad("{} has {} attributes, more than {}", owner, node.attributes.size(), limits::kAttributes);
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      const auto &[key, value] = node.attributes[i];
      if (!isIdentifier(key))
        return bad("attribute {} of {} has a name that is not made of a-z, 0-9 and _", i, owner);
      for (size_t j = 0; j < i; ++j)
        if (node.attributes[j].first == key)
          return bad("{} has two attributes '{}'", owner, key);
      contentBytes_ += key.size();
      if (const double *real = std::get_if<double>(&value); real && std::isnan(*real))
        return bad("attribute '{}' of {} is not a number", key, owner);
      if (const auto *integers = std::get_if<std::vector<int64_t>>(&value))
        contentBytes_ += integers->size() * sizeof(int64_t);
      if (const auto *text = std::get_if<std::string>(&value)) {
        contentBytes_ += text->size();
        if (!isPrintableUtf8(*text))
          return bad("attribute '{}' of {} is not printable UTF-8", key, owner);
      }
    }
    return Status::ok();
  }

  Status verifyTask() {
    const bool isLanguageModel = readsTokens(graph_.task);
    const bool hasClasses = graph_.task != Task::Regression;
    constexpr int64_t kMost = INT32_MAX; // token ids and labels are i32
    if (isLanguageModel && (graph_.context < 1 || graph_.context > kMost))
      return bad("a language model's context must be from 1 to {}, but it is {}", kMost, graph_.context);
    if (!isLanguageModel && graph_.context != 0)
      return bad("only a language model has a context, but it is {}", graph_.context);
    if (hasClasses && (graph_.vocabulary < 1 || graph_.vocabulary > kMost))
      return bad("the vocabulary (or number of classes) must be from 1 to {}, but it is {}", kMost, graph_.vocabulary);
    if (graph_.task == Task::MaskedLanguageModel && (graph_.maskToken < 0 || graph_.maskToken >= graph_.vocabulary))
      return bad("the mask token {} is not in the vocabulary of {}", graph_.maskToken, graph_.vocabulary);
    if (graph_.task != Task::MaskedLanguageModel && graph_.maskToken != -1)
      return bad("only a masked language model has a mask token, but it is {}", graph_.maskToken);
    if (!hasClasses && graph_.vocabulary != 0)
      return bad("a regression has no classes, but their number is {}", graph_.vocabulary);
    return Status::ok();
  }

  Status verifyWeightsFile() {
    const std::string &file = graph_.weightsFile;
    if (file.empty())
      return Status::ok();
    TAPEOUT_RETURN_IF_ERROR(verifyName("the weights file", file));
    std::string_view rest = file;
    while (true) {
      const size_t slash = rest.find('/');
      const std::string_view component = rest.substr(0, slash);
      if (component.empty() || component == "." || component == "..")
        return bad("the weights file '{}' is not a plain path inside the folder of the model file", file);
      if (slash == std::string_view::npos)
        return Status::ok();
      rest.remove_prefix(slash + 1);
    }
  }

  const Graph &graph_;
  size_t values_ = 0; ///< that exist so far
  uint64_t contentBytes_ = 0;
  uint64_t parameterBytes_ = 0;
};

} // namespace

Status verifyGraph(const Graph &graph) { return GraphVerifier(graph).run(); }

} // namespace tapeout::frontend
