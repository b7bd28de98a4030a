#include "tools/driver/TargetChoice.h"

#include "tools/driver/GpuDetection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace tapeout::driver {
namespace {

// Those that LLVM 19 and bf16 arithmetic allow. The PTX runs on newer ones, too, but for that of kernels for Hopper GPUs
// only.
constexpr unsigned kArchitectures[] = {80, 86, 87, 89, 90};

/// The newest architecture whose code runs on a GPU of this compute capability, or nothing older than the oldest.
unsigned architectureFor(unsigned gpu) {
  unsigned best = kArchitectures[0];
  for (unsigned architecture : kArchitectures)
    if (architecture <= gpu)
      best = architecture;
  return best;
}

TargetChoice cudaOfThisMachine() {
  std::optional<unsigned> gpu = detectGpu();
  const unsigned newest = *std::rbegin(kArchitectures);
  return {"cuda", {gpu ? architectureFor(*gpu) : newest}, /*forNewerGpu=*/gpu && *gpu / 10 > newest / 10};
}

} // namespace

std::string TargetChoice::text() const {
  if (architectures.empty())
    return name;
  return fmt::format("{}:sm_{}", name, fmt::join(architectures, ",sm_"));
}

bool TargetChoice::isHopper() const {
  auto isHopper = [](unsigned architecture) { return architecture / 10 == 9; };
  return !forNewerGpu && !architectures.empty() && std::all_of(architectures.begin(), architectures.end(), isHopper);
}

int64_t TargetChoice::attentionHeadSize() const { return isHopper() ? 256 : 128; }

Result<TargetChoice> parseTarget(const std::string &text) {
  if (text == "cpu")
    return TargetChoice{};
  if (text == "cuda")
    return cudaOfThisMachine();
  TargetChoice choice{"cuda", {}};
  std::string known = fmt::format("sm_{}", fmt::join(kArchitectures, ", sm_"));
  if (text.rfind("cuda:", 0) != 0)
    return Status::error(ExitCode::Usage,
                         fmt::format("--target is '{}', but must be cpu, cuda or cuda:ARCHITECTURE,... of {}", text, known));
  std::stringstream list(text.substr(5));
  for (std::string name; std::getline(list, name, ',');) {
    auto found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                              [&](unsigned architecture) { return name == fmt::format("sm_{}", architecture); });
    if (found == std::end(kArchitectures))
      return Status::error(ExitCode::Usage,
                           fmt::format("--target names the architecture '{}', but must name some of {}", name, known));
    choice.architectures.push_back(*found);
  }
  std::sort(choice.architectures.begin(), choice.architectures.end());
  choice.architectures.erase(std::unique(choice.architectures.begin(), choice.architectures.end()), choice.architectures.end());
  if (choice.architectures.empty())
    return Status::error(ExitCode::Usage, fmt::format("--target is '{}', but names no architecture of {}", text, known));
  return choice;
}

TargetChoice defaultTarget() { return detectGpu() ? cudaOfThisMachine() : TargetChoice{}; }

} // namespace tapeout::driver
