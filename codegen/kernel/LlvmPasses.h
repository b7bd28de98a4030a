// LLVM's optimizer, as every target calls it.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace tapeout::codegen {

/// `pipeline`: as `opt -passes` takes it; one that does not parse ends the process.
void runLlvmPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef pipeline);

} // namespace tapeout::codegen
