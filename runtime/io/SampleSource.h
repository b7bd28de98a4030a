// What a dataset gives to the DataLoader: numbered samples, in file order, checked when they are read.
//
// Errors of a source name the file, the place in it and what was expected.
#pragma once

#include "runtime/io/DataLoader.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tapeout::rt {

/// Which of DataSpec::inputs takes what.
struct InputRoles {
  size_t data = 0;
  size_t labels = 0;
};

class SampleSource {
public:
  virtual ~SampleSource() = default;
  /// At least 1.
  virtual uint64_t samplesInEpoch(uint64_t epoch) const = 0;
  /// Writes sample `index` of the epoch; the spans hold exactly one sample. Any thread, no state.
  virtual Status read(uint64_t epoch, uint64_t index, std::span<uint8_t> data, std::span<uint8_t> labels) const = 0;
  virtual std::string description() const = 0;
  /// Whether reading takes so long that several threads should.
  virtual bool isSlow() const { return false; }
  virtual const std::vector<std::string> &classNames() const { return noNames_; }

private:
  std::vector<std::string> noNames_;
};

/// Token streams for language models: llm.c shards or raw bytes.
Result<std::unique_ptr<SampleSource>> openTokenSource(const DataSpec &spec, InputRoles roles);
/// Two .npy arrays for classification and regression.
Result<std::unique_ptr<SampleSource>> openArraySource(const DataSpec &spec, InputRoles roles);
/// A folder with a folder of JPEG and PNG files for each class.
Result<std::unique_ptr<SampleSource>> openImageSource(const DataSpec &spec, InputRoles roles);

} // namespace tapeout::rt
