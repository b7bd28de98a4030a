#include "tests/e2e/Golden.h"

#include "frontend/models/Models.h"
#include "tests/e2e/Regressor.h"

#include <fstream>

namespace tapeout::e2e {
Golden::Golden(const std::string &name) {
  std::ifstream file(std::string(TAPEOUT_GOLDEN_FOLDER) + "/" + name + ".json");
  json_ = nlohmann::json::parse(file);
}

frontend::Graph Golden::graph() const {
  const nlohmann::json &s = settings();
  if (isModel("regressor"))
    return buildRegressor();
  frontend::ModelOptions sizes;
  const std::pair<const char *, std::optional<int64_t> &> options[] = {
      {"layers", sizes.layers},       {"heads", sizes.heads},          {"kv_heads", sizes.keyHeads},
      {"width", sizes.width},         {"context", sizes.context},      {"vocab", sizes.vocabulary},
      {"inputs", sizes.inputs},       {"classes", sizes.classes},      {"image", sizes.image},
      {"channels", sizes.channels},  {"patch", sizes.patch},         {"mask_token", sizes.maskToken},
  };
  for (auto [name, size] : options)
    if (s.contains(name))
      size = s.at(name).get<int64_t>();
  if (s.contains("hidden"))
    sizes.hidden = s.at("hidden").get<std::vector<int64_t>>();
  return *frontend::buildModel(s.at("model").get<std::string>(), sizes);
}

driver::CompileOptions Golden::options() const {
  driver::CompileOptions options;
  options.batch = settings().at("batch");
  options.training.loss = isModel("regressor") ? "mean_squared_error" : "cross_entropy";
  options.training.labelSmoothing = settings().value("label_smoothing", 0.0);
  options.training.optimizer = settings().at("optimizer");
  for (const std::string prefix : settings().at("frozen"))
    options.freeze.push_back(prefix + "*");
  const nlohmann::json &values = settings().at("hyperparameters");
  for (size_t i = 0; i < kHyperparameterCount; ++i)
    if (auto found = values.find(kHyperparameterNames[i]); found != values.end())
      options.overrides[static_cast<Hyperparameter>(i)] = *found;
  return options;
}

std::vector<double> Golden::data(int64_t batch, int64_t count) const {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = hashWord(kDataStream + batch, i);
    if (isSet("vocab"))
      values.push_back(word % settings().at("vocab").get<uint32_t>());
    else
      values.push_back(isSet("classes") ? hashFraction(word) : hashFraction(word) * 2 - 1);
  }
  return values;
}

std::vector<double> Golden::labels(int64_t batch, int64_t count) const {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = hashWord(kLabelStream + batch, i);
    if (isSet("classes"))
      values.push_back(word % settings().at("classes").get<uint32_t>());
    else if (isSet("vocab"))
      values.push_back(word % 5 == 0 ? -100.0 : (word >> 8) % settings().at("vocab").get<uint32_t>());
    else
      values.push_back(hashFraction(word) * 2 - 1);
  }
  return values;
}

driver::NamedTensors Golden::batch(int64_t step, const std::map<std::string, mlir::RankedTensorType> &types) const {
  int64_t number = step % settings().at("batches").get<int64_t>();
  driver::NamedTensors tensors;
  for (auto [name, type] : types) {
    int64_t count = type.getNumElements();
    tensors[name] = {type.getElementType(), type.getShape().vec(),
                     name == "labels" ? labels(number, count) : data(number, count)};
  }
  return tensors;
}

} // namespace tapeout::e2e
