// The container of a training executable: the runner's bytes, then sections, then a trailer at the end of the file.
//
//   runner | padding | section 0 | padding | section 1 | ... | section table | footer
//
// Sections start at multiples of 4096. The table has one fixed-size entry per section (kind, name, offset, size,
// SHA-256); the footer has the magic, the version, the number of sections and the SHA-256 of table and footer. A
// package without runner (empty runner path) is a file of sections alone. Errors: BadData for a damaged file, those of
// AtomicFile.h.
#pragma once

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sha256.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout {

enum class SectionKind : uint32_t {
  Plan = 0,       ///< FlatBuffer of runtime/plan.fbs
  CpuKernels = 1, ///< ELF shared object
  Weights = 2,    ///< safetensors
};

constexpr size_t kSectionAlignment = 4096;
constexpr size_t kMaxSectionName = 63;

/// What writePackage puts into a section: the file at `path`, or `bytes` when `path` is empty.
struct SectionSource {
  SectionKind kind = SectionKind::Plan;
  std::string name; ///< for example the target; printable ASCII, at most kMaxSectionName characters, may be empty
  std::span<const uint8_t> bytes;
  std::string path;
};

/// Writes `outPath` atomically with mode 0755. No two sections may have the same kind and name.
Status writePackage(const std::string &runnerPath, const std::vector<SectionSource> &sections,
                    const std::string &outPath);

struct Section {
  SectionKind kind = SectionKind::Plan;
  std::string name;
  std::span<const uint8_t> bytes; ///< valid while the Package, or the one it was moved to, lives
  Sha256Digest sha256 = {};
};

class Package {
public:
  /// In the order of writePackage.
  const std::vector<Section> &sections() const { return sections_; }
  /// Null when there is no such section.
  const Section *find(SectionKind kind, std::string_view name = "") const;
  /// Compares the bytes with the hash. openPackage has done it for plans and kernels; weights may be large.
  Status verify(const Section &section) const;

private:
  explicit Package(MappedFile file) : file_(std::move(file)) {}
  friend Result<Package> openPackage(const std::string &path);

  MappedFile file_;
  std::vector<Section> sections_;
};

Result<Package> openPackage(const std::string &path);

} // namespace tapeout
