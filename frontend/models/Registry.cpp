#include "frontend/VerifyGraph.h"
#include "frontend/models/Builders.h"
#include "frontend/models/Models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tapeout::frontend {
namespace {

/// An option that is one positive size of a family.
template <typename Sizes> struct SizeOption {
  std::string_view name;
  std::optional<int64_t> ModelOptions::*given;
  int64_t Sizes::*size;
  int64_t most = kMaxSize;
};

constexpr SizeOption<MlpSizes> kMlpSizeOptions[] = {
    {"inputs", &ModelOptions::inputs, &MlpSizes::inputs},
    {"classes", &ModelOptions::classes, &MlpSizes::classes},
};

constexpr SizeOption<GptSizes> kGptSizeOptions[] = {
    {"layers", &ModelOptions::layers, &GptSizes::layers, kMaxLayers},
    {"heads", &ModelOptions::heads, &GptSizes::heads},
    {"width", &ModelOptions::width, &GptSizes::width},
    {"context", &ModelOptions::context, &GptSizes::context},
    {"vocab", &ModelOptions::vocabulary, &GptSizes::vocabulary},
};

constexpr SizeOption<LlamaSizes> kLlamaSizeOptions[] = {
    {"layers", &ModelOptions::layers, &LlamaSizes::layers, kMaxLayers},
    {"heads", &ModelOptions::heads, &LlamaSizes::heads},
    {"kv-heads", &ModelOptions::keyHeads, &LlamaSizes::keyHeads},
    {"width", &ModelOptions::width, &LlamaSizes::width},
    {"context", &ModelOptions::context, &LlamaSizes::context},
    {"vocab", &ModelOptions::vocabulary, &LlamaSizes::vocabulary},
};

constexpr SizeOption<BertSizes> kBertSizeOptions[] = {
    {"layers", &ModelOptions::layers, &BertSizes::layers, kMaxLayers},
    {"heads", &ModelOptions::heads, &BertSizes::heads},
    {"width", &ModelOptions::width, &BertSizes::width},
    {"context", &ModelOptions::context, &BertSizes::context},
    {"vocab", &ModelOptions::vocabulary, &BertSizes::vocabulary},
};

constexpr SizeOption<VitSizes> kVitSizeOptions[] = {
    {"image", &ModelOptions::image, &VitSizes::image},    {"patch", &ModelOptions::patch, &VitSizes::patch},
    {"layers", &ModelOptions::layers, &VitSizes::layers, kMaxLayers}, {"heads", &ModelOptions::heads, &VitSizes::heads},
    {"width", &ModelOptions::width, &VitSizes::width},    {"classes", &ModelOptions::classes, &VitSizes::classes},
};

constexpr SizeOption<ImageSizes> kImageSizeOptions[] = {
    {"image", &ModelOptions::image, &ImageSizes::image, kMaxImage},
    {"channels", &ModelOptions::channels, &ImageSizes::channels, kMaxChannels},
    {"classes", &ModelOptions::classes, &ImageSizes::classes},
    {"width", &ModelOptions::width, &ImageSizes::width, kMaxChannels},
};

constexpr std::string_view kMlp = "mlp";
constexpr std::string_view kLlama = "llama";
constexpr std::string_view kVit = "vit-b16";

template <typename Sizes> struct Preset {
  std::string_view name;
  std::string_view description;
  Sizes sizes;
};

constexpr Preset<GptSizes> kGptPresets[] = {
    {"gpt", "GPT-2 of any size (default: 4 layers, 4 heads, width 128, context 64, vocabulary 256)", {}},
    {"gpt2-124m", "GPT-2 small (12 layers, 12 heads, width 768, context 1024)", {12, 12, 768, 1024, 50257, 0}},
    {"gpt2-350m", "GPT-2 medium (24 layers, 16 heads, width 1024, context 1024)", {24, 16, 1024, 1024, 50257, 0}},
    {"gpt2-774m", "GPT-2 large (36 layers, 20 heads, width 1280, context 1024)", {36, 20, 1280, 1024, 50257, 0}},
};

constexpr Preset<BertSizes> kBertPresets[] = {
    {"bert", "BERT of any size (default: 4 layers, 4 heads, width 128, context 64, vocabulary 257: bytes, mask)", {}},
    {"bert-base", "BERT base (12 layers, 12 heads, width 768, context 512)", {12, 12, 768, 512, 30522, 103, 0}},
    {"bert-large", "BERT large (24 layers, 16 heads, width 1024, context 512)", {24, 16, 1024, 512, 30522, 103, 0}},
};

struct ImagePreset {
  std::string_view name;
  std::string_view description;
  ResnetSizes sizes;
  int64_t least, multiple; // of the image
  Graph (*build)(std::string name, const ResnetSizes &sizes);
};

constexpr ImagePreset kImagePresets[] = {
    {"lenet", "Two convolutions and two linear layers (default: images 1x28x28, 10 classes)", {{28, 1, 10, 32}}, 4, 1,
     [](std::string name, const ResnetSizes &sizes) { return buildLenet(std::move(name), sizes); }},
    {"resnet18", "ResNet-18 (default: images 3x224x224, 1000 classes)", {{224, 3, 1000, 64}}, 1, 1, buildResnet},
    {"resnet50", "ResNet-50 (default: images 3x224x224, 1000 classes)", {{224, 3, 1000, 64}, {3, 4, 6, 3}, true}, 1, 1, buildResnet},
    {"unet", "U-Net that classifies each pixel (default: images 3x128x128, 2 classes, width 32)", {{128, 3, 2, 32}}, 16, 16,
     [](std::string name, const ResnetSizes &sizes) { return buildUnet(std::move(name), sizes); }},
};

template <typename... Args> Status usage(fmt::format_string<Args...> format, Args &&...args) {
  return Status::error(ExitCode::Usage, fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::string_view> givenOptions(const ModelOptions &options) {
  std::vector<std::string_view> names;
  const auto addSizes = [&](const auto &table) {
    for (const auto &option : table)
      if (options.*option.given)
        names.push_back(option.name);
  };
  addSizes(kMlpSizeOptions);
  addSizes(kGptSizeOptions);
  addSizes(kLlamaSizeOptions);
  addSizes(kBertSizeOptions);
  addSizes(kVitSizeOptions);
  addSizes(kImageSizeOptions);
  if (options.hidden)
    names.push_back("hidden");
  if (options.maskToken)
    names.push_back("mask-token");
  if (options.dropout)
    names.push_back("dropout");
  return names;
}

Status verifyOptionsExist(const ModelInfo &model, const ModelOptions &options) {
  for (std::string_view given : givenOptions(options))
    if (std::find(model.options.begin(), model.options.end(), given) == model.options.end())
      return usage("model '{}' has no option --{}; it has --{}", model.name, given, fmt::join(model.options, ", --"));
  return Status::ok();
}

Status verifySize(std::string_view option, int64_t size, int64_t most) {
  if (size < 1 || size > most)
    return usage("--{} is {}; give a number from 1 to {}", option, size, most);
  return Status::ok();
}

/// Puts the given sizes in the place of the defaults.
template <typename Sizes, size_t N>
Status apply(const SizeOption<Sizes> (&table)[N], const ModelOptions &options, Sizes &sizes) {
  for (const SizeOption<Sizes> &option : table) {
    sizes.*option.size = (options.*option.given).value_or(sizes.*option.size);
    TAPEOUT_RETURN_IF_ERROR(verifySize(option.name, sizes.*option.size, option.most));
  }
  if constexpr (requires { sizes.dropout; }) {
    sizes.dropout = options.dropout.value_or(sizes.dropout);
    if (!(sizes.dropout >= 0 && sizes.dropout < 1)) // also refuses NaN
      return usage("--dropout is {}; give a probability from 0 to below 1", sizes.dropout);
  }
  return Status::ok();
}

Result<Graph> makeMlp(std::string_view name, const ModelOptions &options) {
  MlpSizes sizes;
  TAPEOUT_RETURN_IF_ERROR(apply(kMlpSizeOptions, options, sizes));
  sizes.hidden = options.hidden.value_or(sizes.hidden);
  if (sizes.hidden.size() > kMaxLayers)
    return usage("--hidden names {} layers; give at most {}", sizes.hidden.size(), kMaxLayers);
  for (int64_t width : sizes.hidden)
    TAPEOUT_RETURN_IF_ERROR(verifySize("hidden", width, kMaxSize));
  return buildMlp(std::string(name), sizes);
}

Status verifyHeads(int64_t width, int64_t heads) {
  if (width % heads != 0)
    return usage("the width {} is not divisible by the {} heads; choose --width as a multiple of --heads", width,
                 heads);
  return Status::ok();
}

Result<Graph> makeGpt(const Preset<GptSizes> &preset, const ModelOptions &options) {
  GptSizes sizes = preset.sizes;
  TAPEOUT_RETURN_IF_ERROR(apply(kGptSizeOptions, options, sizes));
  TAPEOUT_RETURN_IF_ERROR(verifyHeads(sizes.width, sizes.heads));
  return buildGpt(std::string(preset.name), sizes);
}

Result<Graph> makeLlama(const ModelOptions &options) {
  LlamaSizes sizes;
  if (options.heads && !options.keyHeads)
    sizes.keyHeads = *options.heads;
  TAPEOUT_RETURN_IF_ERROR(apply(kLlamaSizeOptions, options, sizes));
  TAPEOUT_RETURN_IF_ERROR(verifyHeads(sizes.width, sizes.heads));
  if (sizes.heads % sizes.keyHeads != 0)
    return usage("the {} heads are not divisible by the {} key heads; choose --heads as a multiple of --kv-heads",
                 sizes.heads, sizes.keyHeads);
  if (sizes.width / sizes.heads % 2 != 0)
    return usage("a head of {} elements has no pairs to rotate; choose --width as an even multiple of --heads",
                 sizes.width / sizes.heads);
  if (options.hidden && options.hidden->size() != 1)
    return usage("--hidden names {} widths, but a llama has one; give one", options.hidden->size());
  sizes.hidden = options.hidden ? options.hidden->front() : sizes.defaultHidden();
  TAPEOUT_RETURN_IF_ERROR(verifySize("hidden", sizes.hidden, 4 * kMaxSize));
  return buildLlama(std::string(kLlama), sizes);
}

Result<Graph> makeBert(const Preset<BertSizes> &preset, const ModelOptions &options) {
  BertSizes sizes = preset.sizes;
  TAPEOUT_RETURN_IF_ERROR(apply(kBertSizeOptions, options, sizes));
  TAPEOUT_RETURN_IF_ERROR(verifyHeads(sizes.width, sizes.heads));
  if (options.maskToken && *options.maskToken < 0)
    return usage("--mask-token is {}; give a token of the vocabulary", *options.maskToken);
  sizes.maskToken = options.maskToken.value_or(sizes.maskToken);
  if (sizes.maskToken >= sizes.vocabulary)
    return usage("the mask token {} is not in the vocabulary of {}; choose --mask-token below --vocab", sizes.maskToken,
                 sizes.vocabulary);
  return buildBert(std::string(preset.name), sizes);
}

Result<Graph> makeVit(const ModelOptions &options) {
  VitSizes sizes;
  TAPEOUT_RETURN_IF_ERROR(apply(kVitSizeOptions, options, sizes));
  TAPEOUT_RETURN_IF_ERROR(verifyHeads(sizes.width, sizes.heads));
  if (sizes.image % sizes.patch != 0)
    return usage("the image of {0} x {0} is not divisible into patches of {1} x {1}; choose --image as a multiple of "
                 "--patch",
                 sizes.image, sizes.patch);
  return buildVit(std::string(kVit), sizes);
}

Result<Graph> makeImageModel(const ImagePreset &preset, const ModelOptions &options) {
  ResnetSizes sizes = preset.sizes;
  TAPEOUT_RETURN_IF_ERROR(apply<ImageSizes>(kImageSizeOptions, options, sizes));
  if (sizes.image < preset.least || sizes.image % preset.multiple != 0)
    return usage("--image is {}; '{}' needs a multiple of {} from {} on", sizes.image, preset.name, preset.multiple, preset.least);
  return preset.build(std::string(preset.name), sizes);
}

Result<Graph> make(std::string_view name, const ModelOptions &options) {
  for (const auto &preset : kGptPresets)
    if (preset.name == name)
      return makeGpt(preset, options);
  for (const auto &preset : kBertPresets)
    if (preset.name == name)
      return makeBert(preset, options);
  if (name == kLlama)
    return makeLlama(options);
  for (const ImagePreset &preset : kImagePresets)
    if (preset.name == name)
      return makeImageModel(preset, options);
  return name == kVit ? makeVit(options) : makeMlp(name, options);
}

} // namespace

std::vector<ModelInfo> listModels() {
  std::vector<ModelInfo> models;
  models.push_back({kMlp,
                    "Multi-layer perceptron with relu (default: 784 inputs, hidden 512,512, 10 classes)",
                    {"inputs", "hidden", "classes", "dropout"}});
  for (const auto &preset : kGptPresets)
    models.push_back({preset.name, preset.description, {"layers", "heads", "width", "context", "vocab", "dropout"}});
  models.push_back({kLlama,
                    "Llama of any size (default: 4 layers, 4 heads, 2 key heads, width 128, context 64, vocabulary 256)",
                    {"layers", "heads", "kv-heads", "width", "hidden", "context", "vocab", "dropout"}});
  for (const auto &preset : kBertPresets)
    models.push_back(
        {preset.name, preset.description, {"layers", "heads", "width", "context", "vocab", "mask-token", "dropout"}});
  models.push_back({kVit,
                    "Vision transformer (default: images 3 x 224 x 224, patch 16, 12 layers, 12 heads, width 768)",
                    {"image", "patch", "layers", "heads", "width", "classes", "dropout"}});
  for (const ImagePreset &preset : kImagePresets)
    models.push_back({preset.name, preset.description, {"image", "channels", "classes", "width"}});
  return models;
}

Result<Graph> buildModel(std::string_view name, const ModelOptions &options) {
  const std::vector<ModelInfo> models = listModels();
  const auto model =
      std::find_if(models.begin(), models.end(), [&](const ModelInfo &info) { return info.name == name; });
  if (model == models.end()) {
    std::vector<std::string_view> names;
    for (const ModelInfo &info : models)
      names.push_back(info.name);
    return usage("there is no built-in model '{}'; there are {}", name, fmt::join(names, ", "));
  }
  TAPEOUT_RETURN_IF_ERROR(verifyOptionsExist(*model, options));
  Result<Graph> graph = make(name, options);
  if (!graph.isOk())
    return graph;
  const Status verified = verifyGraph(*graph);
  if (!verified.isOk())
    return usage("model '{}' would be too large: {}; choose smaller sizes", name, verified.message());
  return graph;
}

} // namespace tapeout::frontend
