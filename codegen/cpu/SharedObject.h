// From kernel functions to an ELF shared object: LLVM's optimiser and x86 backend, then LLD as a library.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tapeout::codegen {

/// Lowers and compiles the parts, each on a thread of its own, in the two versions of every function, and links them.
/// dumpDirectory: see CpuOptions.
mlir::FailureOr<std::string> makeSharedObject(llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> parts,
                                              const std::string &dumpDirectory);

} // namespace tapeout::codegen
