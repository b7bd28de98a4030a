// The built-in models have the sizes, names and starting values they promise; wrong options are sentences.

#include "frontend/VerifyGraph.h"
#include "frontend/models/Models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

Graph build(std::string_view name, const ModelOptions &options = {}) {
  Result<Graph> graph = buildModel(name, options);
  EXPECT_TRUE(graph.isOk()) << graph.status().message();
  return graph.isOk() ? *graph : Graph();
}

std::string problem(std::string_view name, const ModelOptions &options) {
  const Result<Graph> graph = buildModel(name, options);
  EXPECT_TRUE(graph.isOk() || graph.status().code() == ExitCode::Usage);
  return graph.status().message();
}

int64_t parameterCount(const Graph &graph) {
  int64_t total = 0;
  for (const Parameter &parameter : graph.parameters) {
    int64_t product = 1;
    for (int64_t extent : parameter.type.shape)
      product *= extent;
    total += product;
  }
  return total;
}

const Parameter &find(const Graph &graph, std::string_view name) {
  const auto found = std::find_if(graph.parameters.begin(), graph.parameters.end(),
                                  [&](const Parameter &parameter) { return parameter.name == name; });
  if (found == graph.parameters.end())
    throw std::runtime_error("no parameter " + std::string(name));
  return *found;
}

int64_t shapeOfHidden(const Graph &llama) { return find(llama, "blocks.0.mlp.up.weight").type.shape[0]; }

std::map<std::string, int> countOps(const Graph &graph) {
  std::map<std::string, int> counts;
  for (const Node &node : graph.nodes)
    ++counts[node.op];
  return counts;
}

TEST(Models, haveTheParameterCountsOfGpt2) {
  EXPECT_EQ(parameterCount(build("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameterCount(build("gpt2-350m")), 354'823'168);
  EXPECT_EQ(parameterCount(build("gpt2-774m")), 774'030'080);
}

// Of Hugging Face's models: BERT without its segments (2 x width), whose head has the vocabulary's bias.
TEST(Models, haveTheParameterCountsOfTheEncoders) {
  EXPECT_EQ(parameterCount(build("vit-b16")), 86'567'656);
  EXPECT_EQ(parameterCount(build("bert-base")), 109'514'298 - 2 * 768);
  EXPECT_EQ(parameterCount(build("bert-large")), 335'174'458 - 2 * 1024);
}

TEST(Models, areListedAndBuiltByName) {
  std::vector<std::string_view> names;
  for (const ModelInfo &model : listModels()) {
    names.push_back(model.name);
    EXPECT_FALSE(model.description.empty());
    EXPECT_EQ(build(model.name).name, model.name);
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"mlp", "gpt", "gpt2-124m", "gpt2-350m", "gpt2-774m", "llama", "bert", "bert-base",
                                                  "bert-large", "vit-b16", "lenet", "resnet18", "resnet50", "unet"}));
}

TEST(Gpt, hasTheNamesShapesAndStartOfGpt2) {
  const Graph graph = build("gpt");
  EXPECT_EQ(graph.task, Task::LanguageModel);
  EXPECT_EQ(graph.context, 64);
  EXPECT_EQ(graph.vocabulary, 256);
  EXPECT_EQ(graph.inputs, (std::vector<Input>{{"tokens", {ElementType::I32, {kBatch, 64}}}}));
  const auto is = [&](std::string_view name, std::vector<int64_t> shape, Initializer initializer) {
    EXPECT_EQ(find(graph, name).type.shape, shape) << name;
    EXPECT_EQ(find(graph, name).initializer, initializer) << name;
  };
  using Kind = Initializer::Kind;
  const Initializer zero = {Kind::Zeros, 0, 0, ""}, one = {Kind::Ones, 0, 0, ""};
  const Initializer weight = {Kind::Normal, 0, 0.02, ""}, residual = {Kind::Normal, 0, 0.02 / std::sqrt(8.0), ""};
  is("wte.weight", {256, 128}, weight);
  is("wpe.weight", {64, 128}, weight);
  is("blocks.3.ln1.weight", {128}, one);
  is("blocks.3.ln1.bias", {128}, zero);
  is("blocks.3.attn.qkv.weight", {384, 128}, weight);
  is("blocks.3.attn.qkv.bias", {384}, zero);
  is("blocks.3.attn.proj.weight", {128, 128}, residual);
  is("blocks.3.attn.proj.bias", {128}, zero);
  is("blocks.3.ln2.weight", {128}, one);
  is("blocks.3.mlp.fc.weight", {512, 128}, weight);
  is("blocks.3.mlp.proj.weight", {128, 512}, residual);
  is("lnf.weight", {128}, one);
  is("lnf.bias", {128}, zero);
  EXPECT_EQ(graph.parameters.size(), 2u + 4u * 12u + 2u);
}

TEST(Gpt, tiesTheHeadToTheTokenTable) {
  const Graph graph = build("gpt");
  const uint32_t table = 1; // value 0 is the input, the table is the first parameter
  EXPECT_EQ(graph.nodes.front().op, "embedding");
  EXPECT_EQ(graph.nodes.front().operands.front(), table);
  EXPECT_EQ(graph.nodes.back().op, "dot_general");
  EXPECT_EQ(graph.nodes.back().operands.back(), table);
}

TEST(Gpt, placesDropoutAsGpt2) {
  EXPECT_EQ(countOps(build("gpt"))["dropout"], 0);
  const Graph graph = build("gpt", {.layers = 3, .dropout = 0.1});
  EXPECT_EQ(countOps(graph)["dropout"], 1 + 2 * 3);
  for (const Node &node : graph.nodes) {
    if (node.op != "attention")
      continue;
    EXPECT_EQ(node.attributes.back(), (std::pair<std::string, Attribute>("dropout", 0.1)));
  }
}

TEST(Gpt, takesItsOptions) {
  const Graph graph = build("gpt", {.layers = 1, .heads = 2, .width = 32, .context = 16, .vocabulary = 100});
  EXPECT_EQ(find(graph, "wte.weight").type.shape, (std::vector<int64_t>{100, 32}));
  EXPECT_EQ(find(graph, "wpe.weight").type.shape, (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(countOps(graph)["attention"], 1);
}

TEST(Llama, hasItsNamesAndShapes) {
  const Graph graph = build("llama", {.heads = 8, .vocabulary = 100, .keyHeads = 2});
  EXPECT_EQ(graph.task, Task::LanguageModel);
  EXPECT_EQ(graph.vocabulary, 100);
  const auto shape = [&](std::string_view name) { return find(graph, name).type.shape; };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shape("wte.weight"), (Shape{100, 128}));
  EXPECT_EQ(shape("blocks.3.attn.q.weight"), (Shape{128, 128}));
  EXPECT_EQ(shape("blocks.3.attn.k.weight"), (Shape{32, 128}));
  EXPECT_EQ(shape("blocks.3.attn.v.weight"), (Shape{32, 128}));
  EXPECT_EQ(shape("blocks.3.mlp.gate.weight"), (Shape{352, 128}));
  EXPECT_EQ(shape("blocks.3.mlp.down.weight"), (Shape{128, 352}));
  EXPECT_EQ(shape("head.weight"), (Shape{100, 128}));
  EXPECT_EQ(graph.parameters.size(), 1u + 4u * 9u + 2u);
  auto ops = countOps(graph);
  EXPECT_EQ(ops["rms_norm"], 9);
  EXPECT_EQ(ops["rope"], 8);
  EXPECT_EQ(ops["rope_table"], 1);
  EXPECT_EQ(shapeOfHidden(build("llama", {.hidden = std::vector<int64_t>{40}})), 40);
}

TEST(Llama, hasAsManyKeyHeadsAsHeadsUnlessToldOtherwise) {
  EXPECT_EQ(find(build("llama", {.heads = 8}), "blocks.0.attn.k.weight").type.shape[0], 128);
  EXPECT_EQ(find(build("llama"), "blocks.0.attn.k.weight").type.shape[0], 64);
}

TEST(Bert, hidesTokensBehindOneThatIsNoByte) {
  const Graph graph = build("bert");
  EXPECT_EQ(graph.task, Task::MaskedLanguageModel);
  EXPECT_EQ(graph.vocabulary, 257);
  EXPECT_EQ(graph.maskToken, 256);
  EXPECT_EQ(build("bert", {.vocabulary = 300}).maskToken, 299);
  EXPECT_EQ(build("bert", {.vocabulary = 300, .maskToken = 7}).maskToken, 7);
  EXPECT_EQ(build("bert-base").maskToken, 103);
  EXPECT_EQ(graph.nodes.back().op, "add"); // the bias of the tied head
}

TEST(Vit, cutsImagesIntoPatches) {
  const Graph graph = build("vit-b16", {.layers = 1, .image = 32, .patch = 8});
  EXPECT_EQ(graph.task, Task::Classification);
  EXPECT_EQ(graph.inputs, (std::vector<Input>{{"images", {ElementType::F32, {kBatch, 3, 32, 32}}}}));
  EXPECT_EQ(find(graph, "patches.fc.weight").type.shape, (std::vector<int64_t>{768, 3 * 8 * 8}));
  EXPECT_EQ(find(graph, "embedding.positions").type.shape, (std::vector<int64_t>{17, 768}));
  EXPECT_EQ(find(graph, "head.fc.weight").type.shape, (std::vector<int64_t>{1000, 768}));
}

TEST(Mlp, startsAsPyTorch) {
  const Graph graph = build("mlp");
  EXPECT_EQ(graph.task, Task::Classification);
  EXPECT_EQ(graph.vocabulary, 10);
  EXPECT_EQ(graph.inputs, (std::vector<Input>{{"images", {ElementType::F32, {kBatch, 784}}}}));
  EXPECT_EQ(parameterCount(graph), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  const Initializer initializer = {Initializer::Kind::Uniform, -1.0 / 28, 1.0 / 28, ""};
  EXPECT_EQ(find(graph, "layers.0.weight").initializer, initializer);
  EXPECT_EQ(find(graph, "layers.0.bias").initializer, initializer);
  EXPECT_EQ(find(graph, "layers.2.weight").type.shape, (std::vector<int64_t>{10, 512}));
}

TEST(Mlp, takesItsOptions) {
  const Graph graph = build("mlp", {.inputs = 4, .hidden = std::vector<int64_t>{8}, .classes = 3, .dropout = 0.5});
  EXPECT_EQ(parameterCount(graph), 4 * 8 + 8 + 8 * 3 + 3);
  EXPECT_EQ(countOps(graph)["dropout"], 1);
  EXPECT_EQ(countOps(build("mlp", {.hidden = std::vector<int64_t>{}}))["relu"], 0);
}

TEST(ImageModels, haveTheParametersOfPyTorch) {
  EXPECT_EQ(parameterCount(build("lenet")), 421'642);
  // Those of torchvision, and its running means and variances.
  EXPECT_EQ(parameterCount(build("resnet18")), 11'689'512 + 9'600);
  EXPECT_EQ(parameterCount(build("resnet50")), 25'557'032 + 53'120);
  const Graph graph = build("resnet50", {.image = 32, .classes = 10});
  EXPECT_EQ(find(graph, "layer3.5.conv2.weight").type.shape, (std::vector<int64_t>{256, 256, 3, 3}));
  EXPECT_EQ(find(graph, "layer4.0.downsample.1.running_var").initializer.kind, Initializer::Kind::Ones);
  EXPECT_EQ(find(graph, "fc.weight").type.shape, (std::vector<int64_t>{10, 2048}));
  EXPECT_EQ(graph.vocabulary, 10);
}

TEST(Unet, joinsWhatItHalved) {
  const Graph graph = build("unet", {.image = 32, .classes = 3});
  std::map<std::string, int> ops = countOps(graph);
  EXPECT_EQ(ops["concatenate"], 4);
  EXPECT_EQ(ops["convolution_input_grad"], 4); // transposed convolutions
  EXPECT_EQ(ops["convolution"], 2 * 9 + 1);
  EXPECT_EQ(find(graph, "up3.join.conv0.weight").type.shape, (std::vector<int64_t>{256, 512, 3, 3}));
}

TEST(Models, refuseBadOptionsWithASentence) {
  EXPECT_EQ(problem("gpt5", {}),
            "there is no built-in model 'gpt5'; there are mlp, gpt, gpt2-124m, gpt2-350m, gpt2-774m, llama, bert, "
            "bert-base, bert-large, vit-b16, lenet, resnet18, resnet50, unet");
  EXPECT_EQ(problem("mlp", {.heads = 4}),
            "model 'mlp' has no option --heads; it has --inputs, --hidden, --classes, --dropout");
  EXPECT_EQ(problem("gpt", {.hidden = std::vector<int64_t>{4}}),
            "model 'gpt' has no option --hidden; it has --layers, --heads, --width, --context, --vocab, --dropout");
  EXPECT_EQ(problem("gpt", {.heads = 3}),
            "the width 128 is not divisible by the 3 heads; choose --width as a multiple of --heads");
  EXPECT_EQ(problem("llama", {.heads = 4, .keyHeads = 3}),
            "the 4 heads are not divisible by the 3 key heads; choose --heads as a multiple of --kv-heads");
  EXPECT_EQ(problem("llama", {.heads = 4, .width = 12}),
            "a head of 3 elements has no pairs to rotate; choose --width as an even multiple of --heads");
  EXPECT_EQ(problem("llama", {.hidden = std::vector<int64_t>{8, 8}}),
            "--hidden names 2 widths, but a llama has one; give one");
  EXPECT_EQ(problem("bert", {.vocabulary = 100, .maskToken = 100}),
            "the mask token 100 is not in the vocabulary of 100; choose --mask-token below --vocab");
  EXPECT_EQ(problem("bert-base", {.maskToken = -1}), "--mask-token is -1; give a token of the vocabulary");
  EXPECT_EQ(problem("vit-b16", {.image = 30}),
            "the image of 30 x 30 is not divisible into patches of 16 x 16; choose --image as a multiple of --patch");
  EXPECT_EQ(problem("unet", {.image = 24}), "--image is 24; 'unet' needs a multiple of 16 from 16 on");
  EXPECT_EQ(problem("lenet", {.image = 3}), "--image is 3; 'lenet' needs a multiple of 1 from 4 on");
  EXPECT_EQ(problem("resnet18", {.dropout = 0.5}),
            "model 'resnet18' has no option --dropout; it has --image, --channels, --classes, --width");
  EXPECT_EQ(problem("gpt", {.layers = 0}), "--layers is 0; give a number from 1 to 4096");
  EXPECT_EQ(problem("gpt", {.vocabulary = -1}), "--vocab is -1; give a number from 1 to 16777216");
  EXPECT_EQ(problem("gpt", {.width = INT64_MAX}), "--width is 9223372036854775807; give a number from 1 to 16777216");
  EXPECT_EQ(problem("mlp", {.hidden = std::vector<int64_t>{8, 0}}), "--hidden is 0; give a number from 1 to 16777216");
  EXPECT_EQ(problem("mlp", {.hidden = std::vector<int64_t>(5000, 1)}), "--hidden names 5000 layers; give at most 4096");
  EXPECT_EQ(problem("gpt", {.dropout = 1.0}), "--dropout is 1; give a probability from 0 to below 1");
  EXPECT_EQ(problem("mlp", {.dropout = std::numeric_limits<double>::quiet_NaN()}),
            "--dropout is nan; give a probability from 0 to below 1");
}

TEST(Models, refuseSizesWhoseProductsAreAbsurd) {
  constexpr int64_t kLarge = 1 << 24;
  EXPECT_EQ(problem("gpt", {.heads = 1, .width = kLarge, .context = kLarge, .vocabulary = kLarge}),
            "model 'gpt' would be too large: parameter 0 ('wte.weight') takes more than 281474976710656 bytes; choose "
            "smaller sizes");
  EXPECT_EQ(problem("mlp", {.inputs = kLarge, .hidden = std::vector<int64_t>{kLarge}}),
            "model 'mlp' would be too large: parameter 0 ('layers.0.weight') takes more than 281474976710656 bytes; "
            "choose smaller sizes");
}

} // namespace
