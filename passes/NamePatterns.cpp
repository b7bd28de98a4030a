#include "passes/NamePatterns.h"

using namespace mlir;

namespace tapeout {

FailureOr<NamePatterns> NamePatterns::create(Operation *where, ArrayRef<std::string> patterns) {
  NamePatterns result;
  for (const std::string &pattern : patterns) {
    Pattern &added = result.patterns_.emplace_back();
    added.text = pattern;
    auto glob = llvm::GlobPattern::create(added.text);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return where->emitError() << "'" << pattern << "' is not a name pattern; use * and ?";
    }
    added.glob = std::move(*glob);
  }
  return result;
}

bool NamePatterns::match(StringRef name) {
  bool any = false;
  for (Pattern &pattern : patterns_)
    if (pattern.glob->match(name))
      any = pattern.used = true;
  return any;
}

LogicalResult NamePatterns::checkAllUsed(Operation *where, StringRef option, StringRef what) const {
  for (const Pattern &pattern : patterns_)
    if (!pattern.used)
      return where->emitError() << "the pattern '" << pattern.text << "' of " << option << " matches no " << what;
  return success();
}

} // namespace tapeout
