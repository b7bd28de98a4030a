// From kernel functions to an ELF shared object: LLVM's optimiser and x86 backend, then LLD as a library.
#pragma once

#include "codegen/cpu/CpuCodegen.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tapeout::codegen {

/// Lowers and compiles the parts, in the two versions of every function, and links them.
mlir::FailureOr<std::string> makeSharedObject(llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> parts,
                                              const CpuOptions &options);

} // namespace tapeout::codegen
