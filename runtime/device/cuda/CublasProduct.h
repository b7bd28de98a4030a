// One matrix product of a program, ready to be queued: its descriptors, addresses and algorithm.
#pragma once

#include "runtime/base/ElementType.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/MatmulLayout.h"

#include <memory>
#include <string>
#include <vector>

namespace tapeout::rt {

/// A, b and c of a product: addresses and element types. a and b have one type; c has it too, or is f32. bias: of c's type, one
/// number for each column, which is added to all rows before rounding; 0: none.
struct ProductOperands {
  CuDevicePointer a, b, c;
  ElementType type, resultType;
  CuDevicePointer bias = 0;
};

/// A cuBLASLt handle with the memory its kernels may use.
struct CublasContext {
  CublasLt library;
  Owned<CublasHandle> handle;
  CuDevicePointer workspace = 0;
  size_t workspaceBytes = 0;
  CuStream stream = nullptr;

  /// "`what`: the text of the error".
  Status check(CublasStatus status, const char *what) const;
};

class CublasProduct {
public:
  /// `context` outlives the product. `problem` has passed chooseMatmulLayout. With a bias, c is one row-major matrix.
  static Result<CublasProduct> create(const CublasContext &context, const GemmProblem &problem,
                                      const ProductOperands &operands);

  /// Products with the same key have the same candidates.
  const std::string &key() const { return key_; }
  /// What the library can run within the workspace, best guess first; at most `count`. Only algorithms that give the same
  /// bits in every run. Unavailable when there is none.
  Result<std::vector<CublasAlgorithm>> candidates(int count) const;
  /// Whether the library can run it for this product within the workspace. Its heuristics do not list the same algorithms in
  /// every process, so what was chosen once may be missing in candidates().
  bool accepts(const CublasAlgorithm &algorithm) const;
  /// Queues the product on the context's stream.
  Status run(const CublasAlgorithm &algorithm) const;

private:
  CublasProduct() = default;
  Status describe(const ProductOperands &operands);

  const CublasContext *context_ = nullptr;
  MatmulLayout layout_;
  CuDevicePointer left_ = 0, right_ = 0, result_ = 0;
  size_t leftBytes_ = 0, resultBytes_ = 0; // of one element
  float beta_ = 0;
  std::string key_;
  Owned<CublasMatmulDesc> desc_;
  Owned<CublasMatrixLayout> leftLayout_, rightLayout_, resultLayout_;
};

} // namespace tapeout::rt
