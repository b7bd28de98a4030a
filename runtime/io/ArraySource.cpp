// Pairs of .npy arrays: data [samples, ...] and labels [samples, ...].
//
// Each element is converted to the type of the input it fills: to floating point by value, rounded to nearest, where
// uint8 data (images) is also divided by 255; to integers by value, which must fit. Floating point is never converted
// to integers. Class labels must be in [0, classes) or equal ignore_index.
#include "runtime/io/NpyFile.h"
#include "runtime/io/SampleSource.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace tapeout::rt {

namespace {

/// Up to so many labels are checked before the first step; all are checked when read.
constexpr uint64_t kLabelsCheckedAtStart = uint64_t{1} << 25;

template <typename T> T load(const uint8_t *bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

/// Calls `function` with a value of the C++ type.
template <typename Function> auto dispatch(NpyType type, Function function) {
  switch (type) {
  case NpyType::F32:
    return function(float());
  case NpyType::F64:
    return function(double());
  case NpyType::I32:
    return function(int32_t());
  case NpyType::I64:
    return function(int64_t());
  case NpyType::U8:
    break;
  }
  return function(uint8_t());
}

/// Converts `count` elements; gives the index of the first one that does not fit.
template <typename From, typename To>
std::optional<uint64_t> convert(const uint8_t *source, uint64_t count, To divisor, uint8_t *destination) {
  for (uint64_t i = 0; i < count; ++i) {
    From from = load<From>(source, i);
    To to = static_cast<To>(from);
    if constexpr (std::is_integral_v<To>) {
      if (static_cast<int64_t>(from) != to)
        return i;
    } else {
      to /= divisor;
    }
    std::memcpy(destination + i * sizeof(To), &to, sizeof(To));
  }
  return std::nullopt;
}

/// One array and the input it fills.
struct Column {
  NpyFile file;
  BatchInput input;
  uint64_t elements; ///< per sample
  bool scaled;       ///< uint8 to [0, 1]

  std::optional<uint64_t> read(uint64_t sample, std::span<uint8_t> destination) const {
    const uint8_t *source = file.data() + sample * elements * sizeOf(file.header.type);
    return dispatch(file.header.type, [&]<typename From>(From) -> std::optional<uint64_t> {
      switch (input.type) {
      case ElementType::F32:
        return convert<From, float>(source, elements, scaled ? 255.0f : 1.0f, destination.data());
      case ElementType::F64:
        return convert<From, double>(source, elements, scaled ? 255.0 : 1.0, destination.data());
      case ElementType::I32:
        if constexpr (std::is_integral_v<From>)
          return convert<From, int32_t>(source, elements, 1, destination.data());
        break;
      case ElementType::I64:
        if constexpr (std::is_integral_v<From>)
          return convert<From, int64_t>(source, elements, 1, destination.data());
        break;
      default:
        break;
      }
      return 0; // openColumn() has refused these
    });
  }

  int64_t integerAt(uint64_t index) const {
    return dispatch(file.header.type, [&]<typename From>(From) -> int64_t {
      if constexpr (std::is_integral_v<From>)
        return load<From>(file.data(), index);
      return 0;
    });
  }
};

Status badData(std::string message) { return Status::error(ExitCode::BadData, std::move(message)); }

Result<Column> openColumn(const std::string &path, const BatchInput &input, int64_t batch, bool scaled) {
  Result<NpyFile> file = NpyFile::open(path);
  if (!file.isOk())
    return file.status();
  const NpyHeader &header = file->header;
  if (header.shape.empty() || header.elements == 0)
    return badData(fmt::format("{}: the array is empty or a scalar, so it holds no samples; give an array whose first "
                               "dimension counts samples",
                               path));
  uint64_t elements = header.elements / static_cast<uint64_t>(header.shape[0]);
  uint64_t expected = input.bytes / static_cast<uint64_t>(batch) / elementSize(input.type);
  if (elements != expected)
    return badData(
        fmt::format("{}: one sample has {} elements, but the model's input '{}' takes {}; reshape the array or "
                    "compile the model for this shape",
                    path, elements, input.name, expected));
  bool fromFloat = header.type == NpyType::F32 || header.type == NpyType::F64;
  bool toInteger = input.type == ElementType::I32 || input.type == ElementType::I64;
  bool toFloat = input.type == ElementType::F32 || input.type == ElementType::F64;
  if (!(toFloat || (toInteger && !fromFloat)))
    return badData(fmt::format("{}: its {} elements cannot fill the model's input '{}' of {}; convert the array with "
                               "array.astype",
                               path, nameOf(header.type), input.name, name(input.type)));
  return Column{std::move(*file), input, elements, scaled && header.type == NpyType::U8};
}

class ArraySource final : public SampleSource {
public:
  ArraySource(Column data, Column labels, const DataSpec &spec)
      : data_(std::move(data)), labels_(std::move(labels)), classification_(spec.task == DataTask::Classification),
        classes_(spec.vocabulary), ignoreIndex_(spec.ignoreIndex),
        samples_(static_cast<uint64_t>(data_.file.header.shape[0])) {}

  uint64_t samplesInEpoch(uint64_t) const override { return samples_; }

  Status read(uint64_t, uint64_t index, std::span<uint8_t> data, std::span<uint8_t> labels) const override {
    TAPEOUT_RETURN_IF_ERROR(checkLabels(index * labels_.elements, labels_.elements));
    TAPEOUT_RETURN_IF_ERROR(readColumn(data_, index, data));
    return readColumn(labels_, index, labels);
  }

  std::string description() const override { return fmt::format("{}: {} samples", data_.file.path, samples_); }

  /// Finds a bad label before any time is spent on training, unless looking would take long itself.
  Status checkAtStart() const {
    uint64_t labels = labels_.file.header.elements;
    return labels > kLabelsCheckedAtStart ? Status::ok() : checkLabels(0, labels);
  }

private:
  Status checkLabels(uint64_t first, uint64_t count) const {
    for (uint64_t i = first; classification_ && i < first + count; ++i) {
      int64_t label = labels_.integerAt(i);
      if ((label < 0 || label >= classes_) && label != ignoreIndex_)
        return badData(
            fmt::format("{}: label {} (counted from 0) is {}, but the model has the classes 0 to {} (and {} for "
                        "labels to ignore); correct the labels or compile the model with more classes",
                        labels_.file.path, i, label, classes_ - 1, ignoreIndex_));
    }
    return Status::ok();
  }

  Status readColumn(const Column &column, uint64_t sample, std::span<uint8_t> destination) const {
    if (auto bad = column.read(sample, destination))
      return badData(
          fmt::format("{}: element {} of sample {} (counted from 0) does not fit in the model's input '{}' of "
                      "{}; correct the array",
                      column.file.path, *bad, sample, column.input.name, name(column.input.type)));
    return Status::ok();
  }

  Column data_;
  Column labels_;
  bool classification_;
  int64_t classes_;
  int64_t ignoreIndex_;
  uint64_t samples_;
};

} // namespace

Result<std::unique_ptr<SampleSource>> openArraySource(const DataSpec &spec, InputRoles roles) {
  if (spec.labelsPath.empty())
    return Status::error(ExitCode::MissingInput,
                         "this model needs labels, but no file with labels is given; give a .npy "
                         "file with --labels");
  Result<Column> data = openColumn(spec.dataPath, spec.inputs[roles.data], spec.batch, true);
  if (!data.isOk())
    return data.status();
  Result<Column> labels = openColumn(spec.labelsPath, spec.inputs[roles.labels], spec.batch, false);
  if (!labels.isOk())
    return labels.status();
  bool integerLabels = labels->input.type == ElementType::I32 || labels->input.type == ElementType::I64;
  if (spec.task == DataTask::Classification && (spec.vocabulary <= 0 || !integerLabels))
    return Status::error(ExitCode::BadConfig, fmt::format("a classifier needs a positive number of classes and integer "
                                                          "labels, but the plan has {} and labels of {}; compile the "
                                                          "model again",
                                                          spec.vocabulary, name(labels->input.type)));
  int64_t dataSamples = data->file.header.shape[0];
  int64_t labelsSamples = labels->file.header.shape[0];
  if (dataSamples != labelsSamples)
    return badData(fmt::format("{} has {} samples, but {} has labels for {}; give files that belong together",
                               spec.dataPath, dataSamples, spec.labelsPath, labelsSamples));
  auto source = std::make_unique<ArraySource>(std::move(*data), std::move(*labels), spec);
  TAPEOUT_RETURN_IF_ERROR(source->checkAtStart());
  return std::unique_ptr<SampleSource>(std::move(source));
}

} // namespace tapeout::rt
