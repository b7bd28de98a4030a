// A graph of cuDNN operations, built one operation at a time, and the execution plan that the library makes of it.
//
// The first call that fails is remembered and everything after it does nothing: builders read like the computation, and
// compile() says what went wrong.
#pragma once

#include "runtime/device/cuda/Cudnn.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace tapeout::rt {

struct CudnnContext {
  CudnnLibrary library;
  Owned<CudnnHandle> handle;
};

/// Memory that a kernel may use while it runs.
struct CudnnWorkspace {
  CuDevicePointer address = 0;
  uint64_t bytes = 0;
};

/// A compiled graph.
struct CudnnPlan {
  Owned<CudnnDescriptor> descriptor;
  uint64_t workspaceBytes = 0; // that it needs
};

/// What a tensor that the caller provides has as its address: of the device, or of the host for a scalar.
struct CudnnBinding {
  int64_t id;
  void *address;
};

/// Arguments of one execution.
Result<Owned<CudnnDescriptor>> bind(const CudnnContext &context, std::span<const CudnnBinding> bindings,
                                    CuDevicePointer workspace);

struct CudnnAttribute;

struct CudnnTensor {
  CudnnDescriptor descriptor = nullptr;
  std::vector<int64_t> sizes, strides;
};

class CudnnGraph {
public:
  using Sizes = std::vector<int64_t>; // four dimensions
  using Tensor = CudnnTensor;

  explicit CudnnGraph(const CudnnContext &context) : context_(context) {}

  /// A tensor in memory that lies at the address bound to `id`.
  Tensor tensor(int64_t id, CudnnType type, const Sizes &sizes, const Sizes &strides);
  /// A value that only lives inside the graph.
  Tensor value(CudnnType type, const Sizes &sizes, const Sizes &strides);
  Tensor value(CudnnType type, const Sizes &sizes);
  /// A number of type f32, read from the host when the plan runs.
  Tensor scalar(int64_t id);

  /// Into a new f32 value like x.
  Tensor pointwise(CudnnPointwise mode, const Tensor &x, const Tensor &y = {}, const Tensor &condition = {});
  void pointwiseInto(CudnnPointwise mode, const Tensor &x, const Tensor &y, const Tensor &result);
  /// The index of each element of `like` along a dimension, i32.
  Tensor index(const Tensor &like, int64_t dimension);
  /// GreaterOrEqual, Less or And, into a new boolean value like x.
  Tensor compare(CudnnPointwise mode, const Tensor &x, const Tensor &y);
  /// Into a new value of another type than f32.
  Tensor pointwiseAs(CudnnType type, CudnnPointwise mode, const Tensor &x, const Tensor &y);
  /// How much of m, n and k counts, one i32 for each matrix of the batch; no tensor: all.
  struct Extents {
    Tensor m, n, k;
  };
  /// a [.., m, k] times b [.., k, n].
  Tensor multiply(const Tensor &a, const Tensor &b, const Extents &extents = {});
  void multiplyInto(const Tensor &a, const Tensor &b, const Tensor &result, const Extents &extents = {});
  Tensor reduceLast(CudnnReduction reduction, const Tensor &x);
  /// Over neighbours in the dimensions where the result is smaller.
  void reduceInto(CudnnReduction reduction, const Tensor &x, const Tensor &result);
  /// 1 with this probability, else 0: new random numbers (Philox) for each pair of seed and offset, which are one i64 each.
  Tensor bernoulli(double probability, const Tensor &seed, const Tensor &offset, const Sizes &sizes);
  /// The elements of x in another order of strides and another type.
  Tensor reshape(const Tensor &x, CudnnType type, const Sizes &sizes, const Sizes &strides);

  /// The first plan of the library's heuristics that needs at most so much workspace and, where `isDeterministic`, gives the same
  /// bits in every run. Unavailable where there is none.
  Result<CudnnPlan> compile(uint64_t workspaceBytes, bool isDeterministic = true);

private:
  CudnnDescriptor make(CudnnKind kind, const char *what, std::span<const CudnnAttribute> attributes);
  CudnnDescriptor make(CudnnKind kind, const char *what, std::initializer_list<CudnnAttribute> attributes);
  Tensor makeTensor(int64_t id, CudnnType type, const Sizes &sizes, const Sizes &strides, bool isValue, bool isScalar);
  void addPointwise(CudnnPointwise mode, CudnnType computed, const Tensor &x, const Tensor &y, const Tensor &condition,
                    const Tensor &result, std::optional<int64_t> axis = {});
  std::optional<CudnnPlan> planOf(CudnnDescriptor config, uint64_t workspaceBytes);
  bool repeatsItsBits(CudnnDescriptor config);

  const CudnnContext &context_;
  Status status_;
  int64_t nextId_ = 1000;
  std::vector<Owned<CudnnDescriptor>> descriptors_;
  std::vector<CudnnDescriptor> operations_;
};

} // namespace tapeout::rt
