#include "frontend/WeightsFile.h"

#include "frontend/Text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tapeout::frontend {
namespace {

class Descriptor {
public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0)
      close(number_);
  }
  int number() const { return number_; }

private:
  int number_;
};

/// Opens `relative` for reading, one component at a time and none of them a link; verifyGraph() has refused "..". So no
/// path leads out of the folder, as with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS of openat2(2), which older kernels and
/// sandboxes lack. A negative descriptor and errno on failure.
Descriptor openBeneath(int folder, const std::filesystem::path &relative) {
  // O_NONBLOCK: opening a pipe must not wait for its writer. It is refused later, since it is no regular file.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
  Descriptor current(dup(folder));
  for (auto component = relative.begin(); component != relative.end() && current.number() >= 0; ++component)
    current = Descriptor(openat(current.number(), component->c_str(), kFlags));
  return current;
}

Status openError(const std::string &path, const std::string &modelPath, int reason) {
  if (reason == ELOOP)
    return Status::error(
        ExitCode::BadData,
        fmt::format("model file '{}': its weights file '{}' is, or is reached by, a symbolic link, which a model may "
                    "not follow; put the file itself there",
                    modelPath, path));
  return Status::error(
      ExitCode::MissingInput,
      fmt::format("model file '{}': cannot open its weights file '{}': {}; put it beside the model file", modelPath,
                  path, std::generic_category().message(reason)));
}

Status verifyTensor(const Parameter &parameter, const Safetensors &tensors, const std::string &path) {
  const std::string &tensor = parameter.initializer.tensor;
  const TensorEntry *entry = tensors.find(tensor);
  constexpr const char *kRemedy = "export the model and its weights again, together";
  if (!entry)
    return Status::error(ExitCode::BadData,
                         fmt::format("weights file '{}': there is no tensor '{}' for parameter '{}'; {}", path, tensor,
                                     parameter.name, kRemedy));
  if (toElementType(entry->type) != parameter.type.element || entry->shape != parameter.type.shape)
    return Status::error(ExitCode::BadData,
                         fmt::format("weights file '{}': tensor '{}' is {}[{}], but parameter '{}' is {}[{}]; {}", path,
                                     tensor, tapeout::name(entry->type), fmt::join(entry->shape, ","), parameter.name,
                                     tapeout::name(parameter.type.element), fmt::join(parameter.type.shape, ","),
                                     kRemedy));
  return Status::ok();
}

} // namespace

Result<WeightsFile> openWeights(const Graph &graph, const std::string &modelPath) {
  const std::filesystem::path folderPath = std::filesystem::path(modelPath).parent_path();
  const std::string path = (folderPath / graph.weightsFile).string();
  const Descriptor folder(open(folderPath.empty() ? "." : folderPath.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (folder.number() < 0)
    return openError(path, modelPath, errno);
  const Descriptor opened = openBeneath(folder.number(), graph.weightsFile);
  if (opened.number() < 0)
    return openError(path, modelPath, errno);

  // By its descriptor: under the name there could be another file by now.
  Result<MappedFile> file = MappedFile::open(fmt::format("/proc/self/fd/{}", opened.number()));
  if (!file.isOk())
    return Status::error(
        ExitCode::BadData,
        fmt::format("model file '{}': its weights file '{}' cannot be read as a regular file; put the safetensors "
                    "file there",
                    modelPath, path));
  Result<Safetensors> tensors = Safetensors::parse(file->bytes(), path);
  if (!tensors.isOk())
    return tensors.status();
  for (const Parameter &parameter : graph.parameters)
    if (parameter.initializer.kind == Initializer::Kind::External)
      TAPEOUT_RETURN_IF_ERROR(verifyTensor(parameter, *tensors, path));
  return WeightsFile{std::move(*file), std::move(*tensors)};
}

} // namespace tapeout::frontend
