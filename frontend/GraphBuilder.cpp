#include "frontend/GraphBuilder.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace tapeout::frontend {
namespace {

using Shape = GraphBuilder::Shape;

/// At batch 1; used to compare two shapes that both have the batch, or both not.
[[maybe_unused]] int64_t elementCount(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         [](int64_t product, int64_t extent) { return extent == kBatch ? product : product * extent; });
}

[[maybe_unused]] bool hasBatch(const Shape &shape) { return !shape.empty() && shape.front() == kBatch; }

[[maybe_unused]] bool isPermutation(Shape dimensions, size_t rank) {
  std::sort(dimensions.begin(), dimensions.end());
  for (size_t i = 0; i < dimensions.size(); ++i)
    if (dimensions[i] != static_cast<int64_t>(i))
      return false;
  return dimensions.size() == rank;
}

} // namespace

Initializer zeros() { return {Initializer::Kind::Zeros, 0, 0, ""}; }
Initializer ones() { return {Initializer::Kind::Ones, 0, 0, ""}; }
Initializer constant(double value) { return {Initializer::Kind::Constant, value, 0, ""}; }
Initializer normal(double mean, double deviation) { return {Initializer::Kind::Normal, mean, deviation, ""}; }
Initializer uniform(double low, double high) { return {Initializer::Kind::Uniform, low, high, ""}; }
Initializer external(std::string tensor) { return {Initializer::Kind::External, 0, 0, std::move(tensor)}; }

//===- Names and values -------------------------------------------------------------------------------------------===//

GraphBuilder::GraphBuilder(std::string name, Task task) {
  graph_.name = std::move(name);
  graph_.task = task;
}

GraphBuilder::Scope::Scope(GraphBuilder &builder, std::string_view name)
    : builder_(builder), outerLength_(builder.path_.size()) {
  if (!builder_.path_.empty())
    builder_.path_ += '.';
  builder_.path_ += name;
}

Value GraphBuilder::makeValue(Kind kind, uint32_t number, TensorType type) {
  values_.push_back({kind, number, std::move(type)});
  return {static_cast<uint32_t>(values_.size() - 1)};
}

Value GraphBuilder::input(std::string name, TensorType type) {
  const auto number = static_cast<uint32_t>(graph_.inputs.size());
  graph_.inputs.push_back({std::move(name), type});
  return makeValue(Kind::Input, number, std::move(type));
}

Value GraphBuilder::parameter(std::string_view name, Shape shape, Initializer initializer) {
  assert(!hasBatch(shape));
  const auto number = static_cast<uint32_t>(graph_.parameters.size());
  const TensorType type = {ElementType::F32, std::move(shape)};
  const Scope path = scope(name);
  graph_.parameters.push_back({path_, type, std::move(initializer)});
  return makeValue(Kind::Parameter, number, type);
}

std::vector<Value> GraphBuilder::node(std::string op, const std::vector<Value> &operands, Attributes attributes,
                                      std::vector<TensorType> results) {
  assert(!results.empty());
  Node node;
  node.op = std::move(op);
  node.name = path_.empty() ? graph_.name : path_;
  for (Value operand : operands) {
    assert(operand.index < values_.size() && "a value of another builder");
    node.operands.push_back(operand.index);
  }
  node.resultCount = static_cast<uint32_t>(results.size());
  node.attributes = std::move(attributes);
  graph_.nodes.push_back(std::move(node));

  std::vector<Value> values;
  for (TensorType &type : results)
    values.push_back(makeValue(Kind::Result, resultCount_++, std::move(type)));
  return values;
}

Value GraphBuilder::node(std::string op, const std::vector<Value> &operands, Attributes attributes, TensorType result) {
  return node(std::move(op), operands, std::move(attributes), std::vector<TensorType>{std::move(result)}).front();
}

int64_t GraphBuilder::extent(Value value, int64_t dimension) const {
  const Shape &extents = shape(value);
  const int64_t index = dimension < 0 ? dimension + static_cast<int64_t>(extents.size()) : dimension;
  assert(index >= 0 && index < static_cast<int64_t>(extents.size()));
  return extents[static_cast<size_t>(index)];
}

uint32_t GraphBuilder::idOf(uint32_t index) const {
  const ValueRecord &value = values_[index];
  const auto inputs = static_cast<uint32_t>(graph_.inputs.size());
  const auto parameters = static_cast<uint32_t>(graph_.parameters.size());
  switch (value.kind) {
  case Kind::Input:
    return value.number;
  case Kind::Parameter:
    return inputs + value.number;
  case Kind::Result:
    return inputs + parameters + value.number;
  }
  return 0;
}

Graph GraphBuilder::finish(Value output) {
  assert(path_.empty() && "a scope is still open");
  for (Node &node : graph_.nodes)
    for (uint32_t &operand : node.operands)
      operand = idOf(operand);
  graph_.output = idOf(output.index);
  values_.clear();
  resultCount_ = 0;
  return std::exchange(graph_, Graph());
}

//===- Elementwise ------------------------------------------------------------------------------------------------===//

Value GraphBuilder::unary(std::string op, Value x) { return node(std::move(op), {x}, {}, type(x)); }

Value GraphBuilder::binary(std::string op, Value a, Value b) {
  assert(type(a) == type(b) && "operands of one type; use broadcast()");
  return node(std::move(op), {a, b}, {}, type(a));
}

Value GraphBuilder::gelu(Value x, bool tanhApproximate) {
  return node("gelu", {x}, {{"approximate", std::string(tanhApproximate ? "tanh" : "none")}}, type(x));
}

Value GraphBuilder::dropout(Value x, double rate) {
  assert(rate >= 0 && rate < 1);
  return rate == 0 ? x : node("dropout", {x}, {{"rate", rate}}, type(x));
}

//===- Shape ------------------------------------------------------------------------------------------------------===//

Value GraphBuilder::reshape(Value x, Shape shape) {
  const TensorType &operand = type(x);
  assert(elementCount(shape) == elementCount(operand.shape) && hasBatch(shape) == hasBatch(operand.shape));
  return node("reshape", {x}, {{"shape", shape}}, {operand.element, shape});
}

Value GraphBuilder::transpose(Value x, Shape permutation) {
  const TensorType &operand = type(x);
  assert(isPermutation(permutation, operand.shape.size()));
  assert((!hasBatch(operand.shape) || permutation.front() == 0) && "the batch stays first");
  TensorType result = {operand.element, {}};
  for (int64_t dimension : permutation)
    result.shape.push_back(operand.shape[static_cast<size_t>(dimension)]);
  return node("transpose", {x}, {{"permutation", std::move(permutation)}}, std::move(result));
}

Value GraphBuilder::broadcast(Value x, Shape shape, Shape dimensions) {
  const TensorType &operand = type(x);
  assert(dimensions.size() == operand.shape.size());
  assert(std::is_sorted(dimensions.begin(), dimensions.end(), std::less_equal<>()) && "increasing");
  for (size_t i = 0; i < dimensions.size(); ++i)
    assert(operand.shape[i] == 1 || operand.shape[i] == shape.at(static_cast<size_t>(dimensions[i])));
  return node("broadcast_in_dim", {x}, {{"shape", shape}, {"broadcast_dimensions", std::move(dimensions)}},
              {operand.element, shape});
}

std::vector<Value> GraphBuilder::split(Value x, int64_t dimension, int64_t count) {
  TensorType part = type(x);
  int64_t &extent = part.shape.at(static_cast<size_t>(dimension));
  assert(count > 0 && extent != kBatch && extent % count == 0);
  extent /= count;
  return node("split", {x}, {{"dimension", dimension}, {"count", count}},
              std::vector<TensorType>(static_cast<size_t>(count), part));
}

Value GraphBuilder::concatenate(const std::vector<Value> &parts, int64_t dimension) {
  TensorType result = type(parts.at(0));
  int64_t &extent = result.shape.at(static_cast<size_t>(dimension));
  assert(extent != kBatch);
  for (size_t i = 1; i < parts.size(); ++i)
    extent += shape(parts[i]).at(static_cast<size_t>(dimension));
  return node("concatenate", parts, {{"dimension", dimension}}, std::move(result));
}

Value GraphBuilder::slice(Value x, Shape starts, Shape limits) {
  TensorType result = type(x);
  assert(starts.size() == result.shape.size() && limits.size() == result.shape.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t &extent = result.shape[i];
    if (extent == kBatch) {
      assert(starts[i] == 0 && limits[i] == kBatch && "the batch is kept whole");
      continue;
    }
    assert(starts[i] >= 0 && starts[i] < limits[i] && limits[i] <= extent);
    extent = limits[i] - starts[i];
  }
  return node("slice", {x}, {{"starts", std::move(starts)}, {"limits", std::move(limits)}}, std::move(result));
}

//===- Layers -----------------------------------------------------------------------------------------------------===//

Value GraphBuilder::matmul(Value x, Value w, int64_t rhsContract) {
  const TensorType &lhs = type(x);
  TensorType result = {lhs.element, {lhs.shape.begin(), lhs.shape.end() - 1}};
  assert(extent(w, rhsContract) == lhs.shape.back() && !hasBatch(shape(w)));
  for (size_t i = 0; i < shape(w).size(); ++i)
    if (static_cast<int64_t>(i) != rhsContract)
      result.shape.push_back(shape(w)[i]);
  const auto lhsContract = static_cast<int64_t>(lhs.shape.size()) - 1;
  return node("dot_general", {x, w},
              {{"lhs_batch", Shape{}},
               {"rhs_batch", Shape{}},
               {"lhs_contract", Shape{lhsContract}},
               {"rhs_contract", Shape{rhsContract}}},
              std::move(result));
}

Value GraphBuilder::layerNorm(Value x, Value gamma, Value beta, double epsilon) {
  assert(shape(gamma) == Shape{extent(x, -1)} && shape(beta) == shape(gamma));
  return node("layer_norm", {x, gamma, beta}, {{"epsilon", epsilon}}, type(x));
}

Value GraphBuilder::rmsNorm(Value x, Value gamma, double epsilon) {
  assert(shape(gamma) == Shape{extent(x, -1)});
  return node("rms_norm", {x, gamma}, {{"epsilon", epsilon}}, type(x));
}

Value GraphBuilder::embedding(Value table, Value ids) {
  assert(shape(table).size() == 2 && !isFloat(type(ids).element));
  TensorType result = {type(table).element, shape(ids)};
  result.shape.push_back(extent(table, 1));
  return node("embedding", {table, ids}, {}, std::move(result));
}

Value GraphBuilder::attention(Value q, Value k, Value v, const AttentionOptions &options) {
  assert(shape(q).size() == 4 && shape(k).size() == 4 && type(v) == type(k) && extent(q, 2) % extent(k, 2) == 0);
  std::vector<Value> operands = {q, k, v};
  if (options.lengths) {
    assert(type(*options.lengths) == (TensorType{ElementType::I32, {extent(q, 0)}}) && extent(q, 1) == extent(k, 1));
    operands.push_back(*options.lengths);
  }
  return node("attention", operands,
              {{"causal", options.causal}, {"scale", options.scale}, {"dropout", options.dropout}}, type(q));
}

GraphBuilder::RopeTable GraphBuilder::ropeTable(int64_t tokens, int64_t headSize, double base) {
  assert(headSize % 2 == 0);
  const Shape shape = {tokens, headSize / 2};
  const Value positions = node("iota", {}, {{"shape", shape}, {"dimension", int64_t{0}}}, {ElementType::I32, shape});
  const TensorType table = {ElementType::F32, shape};
  const auto tables = node("rope_table", {positions}, {{"base", base}}, std::vector{table, table});
  return {tables[0], tables[1]};
}

Value GraphBuilder::rope(Value x, const RopeTable &table) {
  assert(shape(x).size() == 4 && shape(table.cos) == (Shape{extent(x, 1), extent(x, 3) / 2}));
  return node("rope", {x, table.cos, table.sin}, {}, type(x));
}

namespace {
GraphBuilder::Attributes windowAttributes(const GraphBuilder::WindowOptions &window) {
  return {{"strides", Shape(2, window.stride)}, {"padding", Shape(4, window.padding)}};
}
} // namespace

TensorType GraphBuilder::windowed(Value x, int64_t channels, const WindowOptions &window) const {
  const TensorType &operand = type(x);
  assert(operand.shape.size() == 4);
  const auto positions = [&](int64_t extent) { return (extent + 2 * window.padding - window.size) / window.stride + 1; };
  assert(operand.shape[2] + 2 * window.padding >= window.size && operand.shape[3] + 2 * window.padding >= window.size);
  return {operand.element, {operand.shape[0], channels, positions(operand.shape[2]), positions(operand.shape[3])}};
}

Value GraphBuilder::convolution(Value x, Value weight, const WindowOptions &window) {
  const Shape filters = shape(weight);
  assert(filters.size() == 4 && filters[1] == extent(x, 1) && filters[2] == window.size && filters[3] == window.size);
  return node("convolution", {x, weight}, windowAttributes(window), windowed(x, filters[0], window));
}

Value GraphBuilder::transposedConvolution(Value x, Value weight, const WindowOptions &window) {
  const Shape filters = shape(weight);
  assert(filters.size() == 4 && filters[0] == extent(x, 1) && filters[2] == window.size && filters[3] == window.size);
  TensorType result = type(x);
  result.shape[1] = filters[1];
  for (size_t d : {2, 3})
    result.shape[d] = (result.shape[d] - 1) * window.stride + window.size - 2 * window.padding;
  Attributes attributes = windowAttributes(window);
  attributes.emplace_back("shape", result.shape);
  return node("convolution_input_grad", {x, weight}, std::move(attributes), std::move(result));
}

Value GraphBuilder::maxPool(Value x, const WindowOptions &window) {
  Attributes attributes = windowAttributes(window);
  attributes.emplace_back("window", Shape(2, window.size));
  return node("max_pool", {x}, std::move(attributes), windowed(x, extent(x, 1), window)); // its index is for its gradient
}

Value GraphBuilder::averagePool(Value x, const WindowOptions &window) {
  Attributes attributes = windowAttributes(window);
  attributes.emplace_back("window", Shape(2, window.size));
  return node("avg_pool", {x}, std::move(attributes), windowed(x, extent(x, 1), window));
}

Value GraphBuilder::globalAverage(Value x) {
  TensorType result = type(x);
  assert(result.shape.size() == 4);
  Attributes attributes = windowAttributes({});
  attributes.emplace_back("window", Shape{result.shape[2], result.shape[3]});
  result.shape[2] = result.shape[3] = 1;
  const Value mean = node("avg_pool", {x}, std::move(attributes), result);
  return reshape(mean, {result.shape[0], result.shape[1]});
}

Value GraphBuilder::addChannelBias(Value x, std::optional<Initializer> bias) {
  if (!bias)
    return x;
  const Value b = parameter("bias", {extent(x, 1)}, std::move(*bias));
  const Shape result = shape(x);
  return add(x, broadcast(b, result, {1}));
}

Value GraphBuilder::convolution(std::string_view name, Value x, int64_t filters, const WindowOptions &window, Initializer weight,
                                std::optional<Initializer> bias) {
  const Scope layer = scope(name);
  const Value w = parameter("weight", {filters, extent(x, 1), window.size, window.size}, std::move(weight));
  return addChannelBias(convolution(x, w, window), std::move(bias));
}

Value GraphBuilder::transposedConvolution(std::string_view name, Value x, int64_t filters, const WindowOptions &window,
                                          Initializer weight, std::optional<Initializer> bias) {
  const Scope layer = scope(name);
  const Value w = parameter("weight", {extent(x, 1), filters, window.size, window.size}, std::move(weight));
  return addChannelBias(transposedConvolution(x, w, window), std::move(bias));
}

Value GraphBuilder::batchNorm(std::string_view name, Value x, double momentum, double epsilon) {
  const Scope layer = scope(name);
  const Shape channels = {extent(x, 1)};
  const Value gamma = parameter("weight", channels, ones()), beta = parameter("bias", channels, zeros());
  const Value mean = parameter("running_mean", channels, zeros()), variance = parameter("running_var", channels, ones());
  const std::vector<Value> batch = node("batch_norm_statistics", {x, mean, variance}, {{"momentum", momentum}},
                                        std::vector<TensorType>(2, type(mean)));
  return node("batch_norm", {x, batch[0], batch[1], gamma, beta}, {{"epsilon", epsilon}}, type(x));
}

Value GraphBuilder::groupNorm(std::string_view name, Value x, int64_t groups, double epsilon) {
  const Scope layer = scope(name);
  assert(extent(x, 1) % groups == 0);
  const Value gamma = parameter("weight", {extent(x, 1)}, ones()), beta = parameter("bias", {extent(x, 1)}, zeros());
  return node("group_norm", {x, gamma, beta}, {{"groups", groups}, {"epsilon", epsilon}}, type(x));
}

Value GraphBuilder::linear(std::string_view name, Value x, int64_t outputs, Initializer weight,
                           std::optional<Initializer> bias) {
  const Scope layer = scope(name);
  const Value w = parameter("weight", {outputs, extent(x, -1)}, std::move(weight));
  const Value product = matmul(x, w, 1);
  if (!bias)
    return product;
  const Value b = parameter("bias", {outputs}, std::move(*bias));
  const Shape result = shape(product);
  return add(product, broadcast(b, result, {static_cast<int64_t>(result.size()) - 1}));
}

Value GraphBuilder::layerNorm(std::string_view name, Value x, double epsilon) {
  const Scope layer = scope(name);
  const Value gamma = parameter("weight", {extent(x, -1)}, ones());
  const Value beta = parameter("bias", {extent(x, -1)}, zeros());
  return layerNorm(x, gamma, beta, epsilon);
}

Value GraphBuilder::rmsNorm(std::string_view name, Value x, double epsilon) {
  const Scope layer = scope(name);
  return rmsNorm(x, parameter("weight", {extent(x, -1)}, ones()), epsilon);
}

} // namespace tapeout::frontend
