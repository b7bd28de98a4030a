#include "runtime/base/Package.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

using namespace tapeout;

static_assert(std::endian::native == std::endian::little, "numbers are stored as they are in memory");

namespace {

constexpr std::array<char, 8> kMagic = {'T', 'A', 'P', 'E', 'O', 'U', 'T', '\n'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxSections = 1024;

struct TableEntry {
  uint32_t kind;
  uint32_t reserved;
  char name[kMaxSectionName + 1]; // padded with zeros
  uint64_t offset;                // from the start of the file
  uint64_t size;
  Sha256Digest sha256;
};
static_assert(sizeof(TableEntry) == 120);

/// The last bytes of the file; the table ends where it begins.
struct Footer {
  Sha256Digest sha256; // of the table and of the footer behind this field
  uint32_t version;
  uint32_t sectionCount;
  std::array<char, 8> magic;
};
static_assert(sizeof(Footer) == 48);

Sha256Digest hashOf(std::span<const TableEntry> table, const Footer &footer) {
  Sha256 hash;
  hash.update(table.data(), table.size_bytes());
  hash.update(&footer.version, sizeof(Footer) - offsetof(Footer, version));
  return hash.finish();
}

std::string_view name(SectionKind kind) {
  constexpr std::array<std::string_view, 3> names = {"plan", "kernels", "weights"};
  return names[static_cast<size_t>(kind)];
}

std::string describe(SectionKind kind, std::string_view sectionName) {
  return sectionName.empty() ? fmt::format("the {} section", name(kind))
                             : fmt::format("the {} section '{}'", name(kind), sectionName);
}

bool isPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

Status damaged(const std::string &path, std::string_view what) {
  return Status::error(ExitCode::BadData, fmt::format("'{}' is damaged: {}; copy or compile it again", path, what));
}

Status cannotWrite(const std::string &path, std::string_view what) {
  return Status::error(ExitCode::WriteFailed, fmt::format("cannot write '{}': {}", path, what));
}

Status padToAlignment(AtomicFile &file) {
  constexpr std::array<uint8_t, kSectionAlignment> zeros = {};
  uint64_t over = file.bytesWritten() % kSectionAlignment;
  return over == 0 ? Status::ok() : file.write(zeros.data(), kSectionAlignment - over);
}

/// The section of a table entry; nothing when the entry contradicts itself or does not lie in [begin, end).
std::optional<Section> readEntry(const TableEntry &entry, std::span<const uint8_t> file, uint64_t begin, uint64_t end) {
  Section section;
  section.kind = static_cast<SectionKind>(entry.kind);
  section.name.assign(entry.name, strnlen(entry.name, sizeof(entry.name)));
  section.sha256 = entry.sha256;
  if (entry.kind > static_cast<uint32_t>(SectionKind::Weights) || section.name.size() > kMaxSectionName ||
      !isPrintable(section.name) || entry.offset % kSectionAlignment != 0 || entry.offset < begin ||
      entry.offset > end || entry.size > end - entry.offset)
    return std::nullopt;
  section.bytes = file.subspan(entry.offset, entry.size);
  return section;
}

} // namespace

Status tapeout::writePackage(const std::string &runnerPath, const std::vector<SectionSource> &sections,
                             const std::string &outPath) {
  if (sections.size() > kMaxSections)
    return cannotWrite(outPath, fmt::format("{} sections are more than the {} allowed", sections.size(), kMaxSections));
  Result<AtomicFile> out = AtomicFile::create(outPath, 0755);
  if (!out.isOk())
    return out.status();
  if (!runnerPath.empty()) {
    Result<MappedFile> runner = MappedFile::open(runnerPath);
    if (!runner.isOk())
      return runner.status();
    TAPEOUT_RETURN_IF_ERROR(out->write(runner->bytes()));
  }

  std::vector<TableEntry> table;
  for (const SectionSource &source : sections) {
    if (source.name.size() > kMaxSectionName || !isPrintable(source.name))
      return cannotWrite(outPath, fmt::format("the section name {:?} is not at most {} printable ASCII characters",
                                              source.name, kMaxSectionName));
    bool isTaken = std::any_of(sections.data(), &source, [&](const SectionSource &earlier) {
      return earlier.kind == source.kind && earlier.name == source.name;
    });
    if (isTaken)
      return cannotWrite(outPath, fmt::format("{} is given twice", describe(source.kind, source.name)));

    std::optional<MappedFile> mapped;
    std::span<const uint8_t> bytes = source.bytes;
    if (!source.path.empty()) {
      Result<MappedFile> file = MappedFile::open(source.path);
      if (!file.isOk())
        return file.status();
      bytes = mapped.emplace(std::move(*file)).bytes();
    }
    TAPEOUT_RETURN_IF_ERROR(padToAlignment(*out));
    TableEntry entry = {};
    entry.kind = static_cast<uint32_t>(source.kind);
    source.name.copy(entry.name, kMaxSectionName);
    entry.offset = out->bytesWritten();
    entry.size = bytes.size();
    entry.sha256 = sha256(bytes);
    table.push_back(entry);
    TAPEOUT_RETURN_IF_ERROR(out->write(bytes));
  }

  Footer footer = {{}, kVersion, static_cast<uint32_t>(table.size()), kMagic};
  footer.sha256 = hashOf(table, footer);
  TAPEOUT_RETURN_IF_ERROR(out->write(table.data(), table.size() * sizeof(TableEntry)));
  TAPEOUT_RETURN_IF_ERROR(out->write(&footer, sizeof(footer)));
  return out->commit();
}

Result<Package> tapeout::openPackage(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.isOk())
    return file.status();
  Package package(std::move(*file));
  std::span<const uint8_t> bytes = package.file_.bytes();

  Footer footer = {};
  if (bytes.size() >= sizeof(Footer))
    std::memcpy(&footer, bytes.last(sizeof(Footer)).data(), sizeof(Footer));
  if (footer.magic != kMagic)
    return Status::error(ExitCode::BadData, fmt::format("'{}' does not end with a compiled model: it is a bare runner, "
                                                        "or was truncated or stripped; compile it again",
                                                        path));
  if (footer.version != kVersion)
    return Status::error(ExitCode::BadData, fmt::format("'{}' has package version {}, this program reads version {}; "
                                                        "compile it again",
                                                        path, footer.version, kVersion));
  uint64_t beforeFooter = bytes.size() - sizeof(Footer);
  if (footer.sectionCount > kMaxSections || footer.sectionCount * sizeof(TableEntry) > beforeFooter)
    return damaged(path, "its section table does not fit in the file");
  std::vector<TableEntry> table(footer.sectionCount);
  uint64_t tableOffset = beforeFooter - table.size() * sizeof(TableEntry);
  if (!table.empty())
    std::memcpy(table.data(), bytes.data() + tableOffset, table.size() * sizeof(TableEntry));
  if (hashOf(table, footer) != footer.sha256)
    return damaged(path, "its section table does not match its hash");

  uint64_t end = 0;
  for (const TableEntry &entry : table) {
    std::optional<Section> section = readEntry(entry, bytes, end, tableOffset);
    if (!section || package.find(section->kind, section->name))
      return damaged(path, "its section table contradicts itself or the size of the file");
    end = entry.offset + entry.size;
    if (section->kind != SectionKind::Weights)
      TAPEOUT_RETURN_IF_ERROR(package.verify(*section));
    package.sections_.push_back(std::move(*section));
  }
  return package;
}

const Section *Package::find(SectionKind kind, std::string_view name) const {
  auto found = std::ranges::find_if(sections_, [&](const Section &s) { return s.kind == kind && s.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

Status Package::verify(const Section &section) const {
  if (sha256(section.bytes) == section.sha256)
    return Status::ok();
  return damaged(file_.path(), fmt::format("{} does not match its hash", describe(section.kind, section.name)));
}
