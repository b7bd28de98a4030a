// A model as plain data: what a model file holds, what the graph builder makes and what the importer turns into tape
// IR.
//
// Value ids are in single-assignment order: the inputs first, then the parameters, then the results of the nodes in
// node order. An operand is smaller than the first result of its node, so neither a cycle nor a dangling name can be
// written. Ops are the mnemonics of the tape dialect and attributes bear its names; result types are left to its shape
// inference.
#pragma once

#include "runtime/base/ElementType.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tapeout::frontend {

/// The one symbolic extent: samples per step, chosen when the model is compiled.
constexpr int64_t kBatch = -1;

struct TensorType {
  ElementType element = ElementType::F32;
  std::vector<int64_t> shape; ///< extents > 0; the leading one may be kBatch
  bool operator==(const TensorType &) const = default;
};

using Attribute = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>>;

/// How a parameter starts. Constant: a. Normal: mean a, standard deviation b. Uniform: [a, b).
/// External: the tensor `tensor` of the graph's weights file.
struct Initializer {
  enum class Kind { Zeros, Ones, Constant, Normal, Uniform, External };
  Kind kind = Kind::Zeros;
  double a = 0;
  double b = 0;
  std::string tensor;
  bool operator==(const Initializer &) const = default;
};

struct Input {
  std::string name;
  TensorType type;
  bool operator==(const Input &) const = default;
};

struct Parameter {
  std::string name; ///< the path of its layer: "blocks.0.attn.qkv.weight"
  TensorType type;
  Initializer initializer;
  bool operator==(const Parameter &) const = default;
};

struct Node {
  std::string op;   ///< mnemonic of the tape dialect, without "tape."
  std::string name; ///< path of the source layer, for messages, kernels and traces; several nodes may share one
  std::vector<uint32_t> operands;
  uint32_t resultCount = 1;
  std::vector<std::pair<std::string, Attribute>> attributes;
  bool operator==(const Node &) const = default;
};

enum class Task { LanguageModel, Classification, Regression, MaskedLanguageModel };
/// Whether samples are windows of a token stream.
constexpr bool readsTokens(Task task) { return task == Task::LanguageModel || task == Task::MaskedLanguageModel; }

struct Graph {
  std::string name;
  Task task = Task::LanguageModel;
  std::vector<Input> inputs;
  std::vector<Parameter> parameters;
  std::vector<Node> nodes;
  uint32_t output = 0;        ///< value id of the logits, or of the prediction
  int64_t context = 0;        ///< language models: tokens per sample
  int64_t vocabulary = 0;     ///< language models: token ids are below it; classification: number of classes
  int64_t maskToken = -1;     ///< masked language model: id of the token that hides others; else -1
  int64_t ignoreIndex = -100; ///< a label that does not count in the loss
  std::string weightsFile;    ///< safetensors file of External initializers, beside the model file; empty: none
  bool operator==(const Graph &) const = default;
};

} // namespace tapeout::frontend
