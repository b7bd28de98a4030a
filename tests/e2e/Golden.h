// One golden of tests/golden: its settings as a model and compile options, its data, and the values PyTorch got.
#pragma once

#include "tests/e2e/Hash.h"
#include "tools/driver/Interpretation.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tapeout::e2e {

/// Streams of hashWord().
constexpr uint32_t kDataStream = 0x1000, kLabelStream = 0x2000; ///< plus the number of the batch
constexpr uint32_t kProjectionStream = 0x3000;                  ///< plus the number of the projection
constexpr uint32_t kSampleStream = 0x4000;

class Golden {
public:
  /// Reads tests/golden/<name>.json. Throws what nlohmann::json throws: the file belongs to the source tree.
  explicit Golden(const std::string &name);

  frontend::Graph graph() const;
  driver::CompileOptions options() const;
  /// Data and labels of the batch that step `step` reads, for inputs of these types.
  driver::NamedTensors batch(int64_t step, const std::map<std::string, mlir::RankedTensorType> &types) const;

  const nlohmann::json &settings() const { return json_.at("settings"); }
  std::vector<double> numbers(const char *key) const { return json_.at(key); }
  const nlohmann::json &gradients() const { return json_.at("gradients"); }
  nlohmann::json statistics() const { return json_.value("statistics", nlohmann::json::object()); }
  bool has(const char *key) const { return json_.contains(key); }
  std::string initialHash() const { return json_.at("initial_sha256"); }

private:
  std::vector<double> data(int64_t batch, int64_t count) const;
  std::vector<double> labels(int64_t batch, int64_t count) const;
  bool isModel(const char *name) const { return settings().at("model") == name; }
  bool isSet(const char *setting) const { return settings().contains(setting); }

  nlohmann::json json_;
};

} // namespace tapeout::e2e
