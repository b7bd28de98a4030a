// PTX to cubin: NVIDIA's ptxas as a child process, else the library nvJitLink, else nothing: then the driver does it when
// the program starts.
#pragma once

#include "runtime/base/Status.h"

#include <memory>
#include <string>

namespace tapeout::codegen {

class Assembler {
public:
  virtual ~Assembler() = default;
  /// What it is and its version: "ptxas ...". Part of the cache's keys.
  virtual std::string name() const = 0;
  /// Whether kernels should say how many registers they may use.
  virtual bool needsRegisterLimit() const = 0;
  /// The ELF file for one architecture: "sm_90". Safe to call from several threads. Errors: Failed.
  virtual Result<std::string> assemble(const std::string &ptx, const std::string &architecture) = 0;
};

/// The best of this machine: ptxas of $CUDA_HOME/bin, /usr/local/cuda/bin or $PATH, else libnvJitLink of the loader's
/// path, $CUDA_HOME/lib64 or /usr/local/cuda/lib64. Null where there is neither.
std::unique_ptr<Assembler> findAssembler();

} // namespace tapeout::codegen
