// The built-in models, by name.
#pragma once

#include "frontend/Graph.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapeout::frontend {

/// What a caller may set; the rest has the model's defaults. Setting what a model does not have is an error.
struct ModelOptions {
  // transformers; `= {}` lets a caller name just some of them without a warning
  std::optional<int64_t> layers = {};
  std::optional<int64_t> heads = {};
  std::optional<int64_t> width = {};
  std::optional<int64_t> context = {}; ///< tokens per sample
  std::optional<int64_t> vocabulary = {};
  std::optional<int64_t> keyHeads = {};  ///< llama
  std::optional<int64_t> maskToken = {}; ///< bert; default: the last of the vocabulary, 103 in bert-base and bert-large
  std::optional<int64_t> image = {};     ///< vit, images: height and width
  std::optional<int64_t> patch = {};     ///< vit
  // mlp
  std::optional<int64_t> inputs = {};
  std::optional<std::vector<int64_t>> hidden = {}; ///< widths of the hidden layers; empty: none. llama: one, of the MLP
  std::optional<int64_t> classes = {};
  // images
  std::optional<int64_t> channels = {};
  // some
  std::optional<double> dropout = {}; ///< probability, from 0 to below 1
};

struct ModelInfo {
  std::string_view name;
  std::string_view description;          ///< one line, with the defaults
  std::vector<std::string_view> options; ///< command-line names of the ModelOptions it has: "layers", "vocab"...
};

std::vector<ModelInfo> listModels();

/// Errors: Usage, for an unknown name, an option the model does not have, or a size that makes no model.
Result<Graph> buildModel(std::string_view name, const ModelOptions &options = {});

} // namespace tapeout::frontend
