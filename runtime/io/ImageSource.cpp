// Folders of images: one folder per class, named by the class, with the class's JPEG and PNG files.
//
// Labels are the places of the folders in the order of their names, samples the files in the order of folders and names;
// names that begin with a dot are left out. An image is resized so that it covers 8/7 of the model's input [N, C, H, W]
// and cut to H x W: in training anywhere and flipped half of the time, by random numbers keyed by (seed, epoch, sample);
// in evaluation from the middle. C is 3 (red, green, blue) or 1 (grey). Values are (pixel / 255 - mean) / deviation, by
// default with those of ImageNet, or 0.5 and 0.5 for grey.
#include "runtime/base/Philox.h"
#include "runtime/io/ImageTransform.h"
#include "runtime/io/SampleSource.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace tapeout::rt {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kCropTag = 0x20000000u; // apart from the loader's other random numbers (Permutation.cpp, Masking.h)
constexpr uint64_t kMaxSamples = uint64_t{1} << 32;

Status badData(std::string message) { return Status::error(ExitCode::BadData, std::move(message)); }
Status badConfig(std::string message) { return Status::error(ExitCode::BadConfig, std::move(message)); }

/// The names in a folder, sorted by their bytes, without those that begin with a dot.
Result<std::vector<std::string>> namesIn(const fs::path &folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (std::string name = entry->path().filename().string(); !name.starts_with('.'))
      names.push_back(std::move(name));
  if (error)
    return Status::error(ExitCode::MissingInput, fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

struct Sample {
  uint32_t label;
  std::string name; ///< of the file in the folder of its class
};

class ImageSource final : public SampleSource {
public:
  ImageSource(const DataSpec &spec, InputRoles roles, std::vector<std::string> classes, std::vector<Sample> samples)
      : folder_(spec.dataPath), classes_(std::move(classes)), samples_(std::move(samples)), seed_(spec.seed),
        isTraining_(spec.shuffle), labelType_(spec.inputs[roles.labels].type) {
    const std::vector<int64_t> &shape = spec.inputs[roles.data].shape;
    channels_ = shape[1];
    height_ = shape[2];
    width_ = shape[3];
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
      mean_.push_back(static_cast<float>(spec.images.mean[c]));
      deviation_.push_back(static_cast<float>(spec.images.deviation[c]));
    }
  }

  uint64_t samplesInEpoch(uint64_t) const override { return samples_.size(); }
  bool isSlow() const override { return true; }
  const std::vector<std::string> &classNames() const override { return classes_; }

  Status read(uint64_t epoch, uint64_t index, std::span<uint8_t> data, std::span<uint8_t> labels) const override {
    const Sample &sample = samples_[index];
    Result<Image> image = readImage((fs::path(folder_) / classes_[sample.label] / sample.name).string());
    if (!image.isOk())
      return image.status();
    Crop crop = isTraining_ ? randomCrop(*image, width_, height_, wordsFor(epoch, index))
                            : centreCrop(*image, width_, height_);
    write(resize(*image, crop), data);
    int64_t label = sample.label; // little endian
    std::memcpy(labels.data(), &label, elementSize(labelType_));
    return Status::ok();
  }

  std::string description() const override {
    return fmt::format("{}: {} images of {} classes, {} x {}, mean {:g}, deviation {:g}", folder_, samples_.size(),
                       classes_.size(), width_, height_, fmt::join(mean_, " "), fmt::join(deviation_, " "));
  }

private:
  std::array<uint32_t, 4> wordsFor(uint64_t epoch, uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), kCropTag},
                      philoxKey(seed_));
  }

  void write(const std::vector<float> &pixels, std::span<uint8_t> data) const {
    size_t plane = static_cast<size_t>(height_ * width_);
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c)
      for (size_t i = 0; i < plane; ++i) {
        float pixel = channels_ == 3 ? pixels[c * plane + i]
                                     : 0.299f * pixels[i] + 0.587f * pixels[plane + i] + 0.114f * pixels[2 * plane + i];
        float value = (pixel / 255.0f - mean_[c]) / deviation_[c];
        std::memcpy(data.data() + (c * plane + i) * sizeof value, &value, sizeof value);
      }
  }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<Sample> samples_;
  uint64_t seed_;
  bool isTraining_;
  ElementType labelType_;
  int64_t channels_, height_, width_;
  std::vector<float> mean_, deviation_;
};

Status checkInputs(const DataSpec &spec, InputRoles roles) {
  const BatchInput &data = spec.inputs[roles.data], &labels = spec.inputs[roles.labels];
  if (spec.task != DataTask::Classification)
    return badConfig(fmt::format("{} is a folder of images, whose folders are classes, but the model is no classifier; give "
                                 "other data", spec.dataPath));
  bool isImage = data.type == ElementType::F32 && data.shape.size() == 4 && (data.shape[1] == 1 || data.shape[1] == 3);
  if (!isImage)
    return badConfig(fmt::format("{} is a folder of images, but the model's input '{}' is not f32 [samples, 3 or 1, height, "
                                 "width]; give a .npy file or compile a model of images", spec.dataPath, data.name));
  bool isLabel = labels.type == ElementType::I32 || labels.type == ElementType::I64;
  if (!isLabel || labels.bytes != static_cast<uint64_t>(spec.batch) * elementSize(labels.type))
    return badConfig(fmt::format("the input '{}' takes no i32 or i64 label per image; compile the model again", labels.name));
  return Status::ok();
}

/// Fills in the defaults.
Status checkNormalisation(DataSpec &spec, int64_t channels) {
  auto take = [&](std::vector<double> &values, std::vector<double> colours, double grey, const char *option) {
    if (values.empty())
      values = channels == 3 ? colours : std::vector<double>{grey};
    bool finite = std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
    return values.size() == static_cast<size_t>(channels) && finite
               ? Status::ok()
               : badConfig(fmt::format("{} needs {} numbers, one per channel of the model's images", option, channels));
  };
  TAPEOUT_RETURN_IF_ERROR(take(spec.images.mean, {0.485, 0.456, 0.406}, 0.5, "--image-mean"));
  TAPEOUT_RETURN_IF_ERROR(take(spec.images.deviation, {0.229, 0.224, 0.225}, 0.5, "--image-std"));
  for (double deviation : spec.images.deviation)
    if (!(deviation >= 1e-6))
      return badConfig(fmt::format("--image-std is {}, but must be at least 1e-6", deviation));
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<SampleSource>> openImageSource(const DataSpec &given, InputRoles roles) {
  DataSpec spec = given;
  TAPEOUT_RETURN_IF_ERROR(checkInputs(spec, roles));
  TAPEOUT_RETURN_IF_ERROR(checkNormalisation(spec, spec.inputs[roles.data].shape[1]));
  Result<std::vector<std::string>> classes = namesIn(spec.dataPath);
  if (!classes.isOk())
    return classes.status();
  std::vector<Sample> samples;
  for (uint32_t label = 0; label < classes->size(); ++label) {
    fs::path folder = fs::path(spec.dataPath) / (*classes)[label];
    if (std::error_code error; !fs::is_directory(folder, error))
      return badData(fmt::format("{} is no folder, but {} may hold only one folder per class; move it away", folder.string(),
                                 spec.dataPath));
    Result<std::vector<std::string>> files = namesIn(folder);
    if (!files.isOk())
      return files.status();
    for (std::string &file : *files) {
      if (!isImageName(file))
        return badData(fmt::format("{}: the name does not end in .jpg, .jpeg or .png; remove the file", (folder / file).string()));
      samples.push_back({label, std::move(file)});
    }
  }
  if (static_cast<int64_t>(classes->size()) != spec.vocabulary)
    return badData(fmt::format("{} holds {} folders, but the model has {} classes; give each class one folder, if need be an "
                               "empty one, or compile the model for {}", spec.dataPath, classes->size(), spec.vocabulary,
                               classes->size()));
  if (samples.empty() || samples.size() >= kMaxSamples)
    return badData(fmt::format("{}: {} images are no dataset; put images into the folders of their classes", spec.dataPath,
                               samples.size()));
  return std::unique_ptr<SampleSource>(std::make_unique<ImageSource>(spec, roles, std::move(*classes), std::move(samples)));
}

} // namespace tapeout::rt
