// Builds a Graph with code that reads like a model definition.
//
//   GraphBuilder g("classifier", Task::Classification);
//   Value x = g.input("images", {ElementType::F32, {kBatch, 784}});
//   Value y = g.linear("layers.0", x, 10, normal(0, 0.02), zeros());
//   Graph graph = g.finish(y);
//
// The builder knows the type of every value. A wrong shape in model code is a programmer's error: it asserts.
#pragma once

#include "frontend/Graph.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapeout::frontend {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer normal(double mean, double deviation);
Initializer uniform(double low, double high);
Initializer external(std::string tensor);

/// A handle to a value of one builder.
struct Value {
  uint32_t index;
};

class GraphBuilder {
public:
  using Shape = std::vector<int64_t>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  GraphBuilder(std::string name, Task task);

  /// Puts `name` in front of the names of everything made while it lives: "weight" in "fc" is "fc.weight".
  class Scope {
  public:
    ~Scope() { builder_.path_.resize(outerLength_); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    friend class GraphBuilder;
    Scope(GraphBuilder &builder, std::string_view name);

    GraphBuilder &builder_;
    size_t outerLength_;
  };
  [[nodiscard]] Scope scope(std::string_view name) { return Scope(*this, name); }

  /// An input keeps its name, scope or not.
  Value input(std::string name, TensorType type);
  /// An f32 parameter.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);

  // Elementwise; operands of one shape.
  Value add(Value a, Value b) { return binary("add", a, b); }
  Value subtract(Value a, Value b) { return binary("subtract", a, b); }
  Value multiply(Value a, Value b) { return binary("multiply", a, b); }
  Value divide(Value a, Value b) { return binary("divide", a, b); }
  Value maximum(Value a, Value b) { return binary("maximum", a, b); }
  Value negate(Value x) { return unary("negate", x); }
  Value exp(Value x) { return unary("exp", x); }
  Value log(Value x) { return unary("log", x); }
  Value sqrt(Value x) { return unary("sqrt", x); }
  Value tanh(Value x) { return unary("tanh", x); }
  Value logistic(Value x) { return unary("logistic", x); }
  Value relu(Value x) { return unary("relu", x); }
  Value silu(Value x) { return unary("silu", x); }
  Value gelu(Value x, bool tanhApproximate);

  // Shape.
  Value reshape(Value x, Shape shape);
  Value transpose(Value x, Shape permutation);
  /// Dimension i of `x` becomes dimensions[i] of `shape`; an extent of 1 is stretched.
  Value broadcast(Value x, Shape shape, Shape dimensions);
  /// `count` equal parts along `dimension`.
  std::vector<Value> split(Value x, int64_t dimension, int64_t count);
  /// One after the other along `dimension`, which is not the batch.
  Value concatenate(const std::vector<Value> &parts, int64_t dimension);
  /// [starts, limits) of every dimension; the batch is kept whole with start 0 and limit kBatch.
  Value slice(Value x, Shape starts, Shape limits);

  /// Contracts the last dimension of `x` with dimension `rhsContract` of `w`: [..., k] x [n, k] with 1 is [..., n].
  Value matmul(Value x, Value w, int64_t rhsContract);
  /// Normalises the last dimension; gamma and beta have its extent.
  Value layerNorm(Value x, Value gamma, Value beta, double epsilon);
  /// x / sqrt(mean(x^2) + epsilon) * gamma along the last dimension.
  Value rmsNorm(Value x, Value gamma, double epsilon);
  /// Rows of `table` [rows, width] at `ids`, with width as the last dimension.
  Value embedding(Value table, Value ids);
  /// Zeros each element with probability `rate` while training and scales the others by 1 / (1 - rate). `x` for rate 0.
  Value dropout(Value x, double rate);
  struct AttentionOptions {
    bool causal = true;
    double scale = 1;   ///< of the scores, before softmax
    double dropout = 0; ///< of the probabilities
    std::optional<Value> lengths = {}; ///< i32 [batch], 1 to tokens: what follows is padding: nothing sees it, its rows are 0
  };
  /// Multi-head attention; q, k, v and the result are [batch, tokens, heads, head size]. k and v may have fewer heads, a
  /// divisor of q's: each then serves a group of neighbours.
  Value attention(Value q, Value k, Value v, const AttentionOptions &options);

  /// Cosines and sines, [tokens, head size / 2] each, for rope().
  struct RopeTable {
    Value cos, sin;
  };
  RopeTable ropeTable(int64_t tokens, int64_t headSize, double base);
  /// Rotary positions for x [batch, tokens, heads, head size]: element i is paired with i + head size / 2.
  Value rope(Value x, const RopeTable &table);

  // Planes: values [batch, channels, height, width], square windows.
  struct WindowOptions {
    int64_t size = 1;
    int64_t stride = 1;
    int64_t padding = 0; ///< zeros on all four sides
  };
  /// weight is [filters, channels, size, size].
  Value convolution(Value x, Value weight, const WindowOptions &window);
  /// The transpose of a convolution, weight [channels of x, filters, size, size]: makes planes larger by the stride.
  Value transposedConvolution(Value x, Value weight, const WindowOptions &window);
  Value maxPool(Value x, const WindowOptions &window);
  Value averagePool(Value x, const WindowOptions &window);
  /// The mean of each plane: [batch, channels].
  Value globalAverage(Value x);

  // Layers: an op with its own parameters, named `name`.weight and `name`.bias.
  /// x W^T + b along the last dimension; the weight is [outputs, inputs] as in PyTorch.
  Value linear(std::string_view name, Value x, int64_t outputs, Initializer weight, std::optional<Initializer> bias);
  /// convolution() plus a bias per filter, both drawn from the same start.
  Value convolution(std::string_view name, Value x, int64_t filters, const WindowOptions &window, Initializer weight,
                    std::optional<Initializer> bias);
  Value transposedConvolution(std::string_view name, Value x, int64_t filters, const WindowOptions &window, Initializer weight,
                              std::optional<Initializer> bias);
  /// Normalises channels over the batch and the plane; `name`.running_mean and .running_var serve evaluation. `momentum`
  /// weighs the new value, as in PyTorch.
  Value batchNorm(std::string_view name, Value x, double momentum = 0.1, double epsilon = 1e-5);
  /// Normalises groups of channels of each sample.
  Value groupNorm(std::string_view name, Value x, int64_t groups, double epsilon = 1e-5);
  /// layerNorm() whose gamma starts at one and beta at zero.
  Value layerNorm(std::string_view name, Value x, double epsilon);
  /// rmsNorm() whose gamma starts at one.
  Value rmsNorm(std::string_view name, Value x, double epsilon);

  /// Any op: for what has no method here.
  std::vector<Value> node(std::string op, const std::vector<Value> &operands, Attributes attributes,
                          std::vector<TensorType> results);

  /// Valid until the next value is made.
  const TensorType &type(Value value) const { return values_[value.index].type; }
  const Shape &shape(Value value) const { return type(value).shape; }
  /// With negative `dimension`, counted from the end.
  int64_t extent(Value value, int64_t dimension) const;

  /// The graph with `output` as its logits or prediction. The builder is empty afterwards.
  Graph finish(Value output);

private:
  enum class Kind { Input, Parameter, Result };
  struct ValueRecord {
    Kind kind;
    uint32_t number; ///< among the values of its kind
    TensorType type;
  };

  Value makeValue(Kind kind, uint32_t number, TensorType type);
  /// Value id in the graph, where inputs precede parameters and these the results.
  uint32_t idOf(uint32_t index) const;
  Value node(std::string op, const std::vector<Value> &operands, Attributes attributes, TensorType result);
  Value unary(std::string op, Value x);
  Value binary(std::string op, Value a, Value b);
  /// The planes that a window makes of those of `x`, with `channels`.
  TensorType windowed(Value x, int64_t channels, const WindowOptions &window) const;
  /// x plus `name`.bias, one number for each channel.
  Value addChannelBias(Value x, std::optional<Initializer> bias);

  Graph graph_; ///< the operands of its nodes are indices into values_ until finish()
  std::vector<ValueRecord> values_;
  uint32_t resultCount_ = 0;
  std::string path_; ///< of the open scopes
};

} // namespace tapeout::frontend
