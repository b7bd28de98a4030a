// The name patterns (* and ?) of one option.
#pragma once

#include "mlir/IR/Operation.h"

#include "llvm/Support/GlobPattern.h"

#include <deque>
#include <optional>
#include <string>

namespace tapeout {

class NamePatterns {
public:
  /// Fails with a message on `where` if one is not a pattern. GlobPattern also knows [a-z], which names never contain.
  static mlir::FailureOr<NamePatterns> create(mlir::Operation *where, llvm::ArrayRef<std::string> patterns);

  /// Whether any pattern matches; remembers which ones have.
  bool match(llvm::StringRef name);
  /// A pattern that has matched nothing is most likely a typing error. `option` and `what` are for the message.
  mlir::LogicalResult checkAllUsed(mlir::Operation *where, llvm::StringRef option, llvm::StringRef what) const;

private:
  struct Pattern {
    std::string text;
    std::optional<llvm::GlobPattern> glob; // refers to the text
    bool used = false;
  };
  std::deque<Pattern> patterns_; // which stay where they are
};

} // namespace tapeout
