// What a picture of a function or program shows, as plain data: no MLIR, no Graphviz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tapeout::inspect {

enum class Phase { Forward, Loss, Backward, Optimizer };
inline constexpr const char *kPhaseNames[] = {"forward", "loss", "backward", "optimizer"};

enum class NodeKind {
  Op,       ///< one op, or a library call
  Kernel,   ///< a fusion group or a kernel launch; `parts` are its ops
  Several,  ///< ops or kernels that the picture draws as one; `parts` are their titles
  Movement, ///< moves or renames one operand and computes nothing: drawn on its edges
  Constant, ///< drawn on its consumers
  Argument, ///< parameter, optimizer state, hyperparameter, counter: drawn on its consumers
  Input,    ///< samples or labels
};

struct Node {
  NodeKind kind = NodeKind::Op;
  Phase phase = Phase::Forward;
  std::string title;              ///< "dot_general", "reduce sum", "launch k3_gelu"
  std::string layer;              ///< source layer, "blocks.0.attn.qkv"; of an argument: its name
  std::string role;               ///< of an argument: "parameter", "optimizer_state", ...
  std::string type;               ///< of the first result: "[12,64,128]", "i32 [12,64]"; rank 0: "f32"
  std::vector<std::string> parts; ///< see NodeKind
  uint64_t flops = 0, bytes = 0;  ///< of all repetitions together
  std::string kernel;             ///< of a kernel: "elementwise", "row", "column", "product", "row movement", "copy"
  std::vector<std::pair<size_t, size_t>> partEdges; ///< of a kernel: from part to part
  uint64_t tensors = 1;           ///< of a kernel: it does the same for so many tensors; parts are those of one
  uint64_t bytesSaved = 0;        ///< of a kernel: what its ops would move alone, less what it moves
  uint64_t count = 1;             ///< how many equal ops this one stands for
  bool heavy = false;             ///< a product, a library call: never merged with its neighbours

  std::vector<std::string> reads;      ///< arguments and constants
  std::vector<std::string> savedReads; ///< values of the forward pass that the backward pass reads
  std::vector<std::string> returns;    ///< names under which the function returns results
  bool isSaved = false;                ///< the backward pass reads a result
  bool givesGradient = false;          ///< a result is the gradient of a parameter
};

struct Edge {
  size_t from = 0, to = 0;
  std::string type;             ///< of the value as `to` reads it
  std::vector<std::string> via; ///< movements on the way
  bool isSummary = false;       ///< stands for many values: all gradients on their way to the optimizer
};

/// Layers of equal structure that are drawn once: from "blocks.0" to "blocks.11", 12 of them.
struct Repetition {
  std::string last;
  uint64_t count = 1;
};

/// Nodes are in program order; edges go from producers to consumers.
struct Graph {
  std::string title; ///< "@step"
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::map<std::pair<Phase, std::string>, Repetition> repetitions; ///< by the first layer
};

} // namespace tapeout::inspect
