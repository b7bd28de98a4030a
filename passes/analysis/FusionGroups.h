// Which ops share a kernel. Plain C++ over a graph of kernel ops, no IR.
//
// A kernel walks an iteration space of `elements`, seen as rows of `columns` elements. Its ops have one result element per
// element ("full"), or one per row ("row": what a reduction over a row gives, and what is computed from it). Groups start
// as single ops and are merged along producer -> consumer edges; every merge saves the bytes of the values between them.
// The idea is that of loop fusion by greedy merging, as in XLA and TVM, restricted to what one row-wise schedule can run.
#pragma once

#include <cstdint>
#include <vector>

namespace tapeout {

/// How an operand's element follows from the element (or row) that is computed.
enum class EdgeKind {
  Same, ///< the element with the same row-major index; of a Single node: its result takes over the memory
  Row,  ///< one value for a row of consecutive elements
  Other ///< anything else: the producer must have finished
};

struct FusionEdge {
  uint32_t producer; ///< index of a node before this one
  EdgeKind kind;
};

enum class NodeKind {
  Pointwise,       ///< elements = those of the result
  RowReduction,    ///< elements = those of the operand, columns of them make one result
  ColumnReduction, ///< elements = those of the operand; a kernel of column reductions has no other results, but for bands
  Single           ///< a kernel of its own, or no kernel at all: never merged
};

/// One op, in program order.
struct FusionNode {
  NodeKind kind = NodeKind::Single;
  uint64_t elements = 0;
  uint64_t columns = 0;      ///< RowReduction: its row length. ColumnReduction: identifies its shape and dimensions
  uint64_t bandColumns = 0;  ///< ColumnReduction of bands of rows of this length, which a kernel of such rows can do besides
  uint64_t bandRows = 0;     ///< and the rows of each band: one kernel reduces bands of one length
  uint32_t phase = 0;        ///< ops of different phases do not share a kernel: that would prolong lives
  bool usedOutside = false;  ///< its result is also wanted by something that is no node (a return)
  uint64_t bytes = 0;        ///< of its results, where they are in memory
  std::vector<FusionEdge> operands;
  /// Every how many of its elements a view that it reads starts anew: C for a bias [C] on [N, C]. Loops are cut there.
  std::vector<uint64_t> cuts = {};
};

struct FusionLimits {
  uint32_t nodes = 48;   ///< of one group; bounds the time to compile a kernel
  uint64_t rowStep = 64; ///< a row cut into multiples of this is still summed in the same order
  /// Nodes at which memory is short: nothing merges over them from far away, for what it reads or gives would live there.
  std::vector<uint32_t> walls = {};
};

/// Groups of node indices, each ascending, in an order in which they can run: every group after those it reads.
std::vector<std::vector<uint32_t>> formFusionGroups(const std::vector<FusionNode> &nodes, const FusionLimits &limits = {});

/// The most bytes of values in memory at a time while the groups run in this order, and a node of the group that runs
/// then. Results may take over the memory of operands that die; values that only leave the function do not count.
struct MemoryPeak {
  uint64_t bytes = 0;
  uint32_t node = 0;
};
MemoryPeak findMemoryPeak(const std::vector<FusionNode> &nodes, const std::vector<std::vector<uint32_t>> &groups);

/// Groups that need no more memory than the nodes one by one in program order, as far as a few walls can do that.
std::vector<std::vector<uint32_t>> formFusionGroupsWithinPeak(const std::vector<FusionNode> &nodes);

} // namespace tapeout
