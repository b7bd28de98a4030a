// LLVM IR of kernels to PTX, with LLVM's NVPTX backend.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace llvm {
class Module;
}

namespace tapeout::codegen {

/// What launches of a function promise, and want.
struct LaunchBound {
  std::string symbol;
  unsigned threads;      // per block
  unsigned resident = 0; // blocks of a multiprocessor, at least; 0: any number
};
struct LaunchBounds {
  std::vector<LaunchBound> functions;
  bool limitRegisters = false; // to 64 per thread: for assemblers that would otherwise take more than is good
};

/// Makes kernels of the functions, optimises them, and returns their PTX for an architecture: "sm_90", or "sm_90a" with the
/// instructions that only this one has. Parameters by value (`ptr byval`) stay in parameter space, where tensor maps
/// have to be: functions must not write them. Safe to call from several threads on modules of different contexts.
std::string emitPtx(llvm::Module &module, const std::string &architecture, const LaunchBounds &bounds);

} // namespace tapeout::codegen
