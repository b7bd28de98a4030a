// Pictures of the built-in models after every pass of the pipeline.
#include "frontend/ImportGraph.h"
#include "frontend/models/Models.h"
#include "passes/Pipelines.h"
#include "tests/inspect/Parse.h"
#include "tools/inspect/DotWriter.h"
#include "tools/inspect/GraphModel.h"
#include "tools/inspect/Graphviz.h"
#include "tools/inspect/Inspect.h"
#include "tools/inspect/Simplify.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <functional>
#include <set>

using namespace mlir;

namespace tapeout::inspect {
namespace {

/// Calls `check` with the module after each pass.
void forEachPass(const std::string &model, const frontend::ModelOptions &options,
                 const std::function<void(ModuleOp, const std::string &pass)> &check, bool fusion = true) {
  auto context = makeContext();
  Result<frontend::Graph> graph = frontend::buildModel(model, options);
  ASSERT_TRUE(graph.isOk()) << graph.status().message();
  OwningOpRef<ModuleOp> module = frontend::importGraph(*context, *graph, {1, {}});
  ASSERT_TRUE(module);
  for (PipelineStep &step : buildPipeline({.fusion = fusion})) {
    std::string name = step.name().str();
    PassManager manager(context.get(), ModuleOp::getOperationName());
    manager.addPass(std::move(step.pass));
    ASSERT_TRUE(succeeded(manager.run(*module))) << name;
    check(*module, name);
  }
}

/// Every different picture is one that Graphviz draws.
void expectDrawable(const std::string &model, const frontend::ModelOptions &options) {
  std::set<std::string> drawn;
  forEachPass(model, options, [&](ModuleOp module, const std::string &pass) {
    Result<std::string> dot = inspect(module, Format::Dot);
    ASSERT_TRUE(dot.isOk()) << pass << ": " << dot.status().message();
    if (!drawn.insert(*dot).second)
      return;
    Result<std::string> svg = renderSvg(*dot);
    EXPECT_TRUE(svg.isOk()) << pass << ": " << svg.status().message();
  });
  EXPECT_GE(drawn.size(), 8u);
}

TEST(PicturesTest, MlpAfterEveryPass) { expectDrawable("mlp", {.inputs = 8, .hidden = {{6, 6}}, .classes = 3}); }

TEST(PicturesTest, GptAfterEveryPass) {
  expectDrawable("gpt", {.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = 16, .dropout = 0.1});
}

TEST(PicturesTest, OtherFunctionsAreDrawnToo) {
  frontend::ModelOptions options{.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = 16};
  forEachPass("gpt", options, [](ModuleOp module, const std::string &pass) {
    for (const char *function : {"evaluate", "predict"}) {
      if (pass == "attach-loss" || pass == "verify-plan") {
        Result<std::string> dot = inspect(module, Format::Dot, function, "gpt");
        ASSERT_TRUE(dot.isOk()) << dot.status().message();
        EXPECT_NE(dot->find("<B>gpt @" + std::string(function) + "</B>"), std::string::npos);
      }
    }
  });
}

TEST(PicturesTest, Gpt2StaysReadableAfterEveryPass) {
  // The first kernel of a block adds what the block before it ends with, so that the first block is another one.
  std::string first = "blocks.0";
  uint64_t count = 12;
  forEachPass("gpt2-124m", {}, [&](ModuleOp module, const std::string &pass) {
    if (pass == "form-fusion-groups") {
      first = "blocks.1";
      count = 11;
    }
    Result<Graph> graph = buildGraph(module);
    ASSERT_TRUE(graph.isOk()) << graph.status().message();
    simplify(*graph);
    EXPECT_LE(graph->nodes.size(), kNodeLimit) << pass;
    auto blocks = graph->repetitions.find({Phase::Forward, first});
    ASSERT_NE(blocks, graph->repetitions.end()) << pass;
    EXPECT_EQ(blocks->second.count, count) << pass;
    EXPECT_EQ(blocks->second.last, "blocks.11") << pass;
    bool hasBackward = std::any_of(graph->nodes.begin(), graph->nodes.end(),
                                   [](const Node &node) { return node.phase == Phase::Backward; });
    auto gradients = graph->repetitions.find({Phase::Backward, "blocks.0"});
    ASSERT_EQ(gradients != graph->repetitions.end(), hasBackward) << pass;
    if (hasBackward) {
      EXPECT_EQ(gradients->second.count, 12u) << pass;
    }
    if (pass == "decompose" || pass == "verify-plan") {
      Result<std::string> svg = renderSvg(writeDot(*graph));
      EXPECT_TRUE(svg.isOk() || svg.status().code() == ExitCode::Unavailable) << pass << ": " << svg.status().message();
    }
  });
}

/// What the groups say that they save is what the whole step saves.
TEST(PicturesTest, SavedBytesAreTheDifferenceToNoFusion) {
  frontend::ModelOptions options{.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = 16, .dropout = 0.1};
  auto measure = [&](bool fusion) {
    uint64_t moved = 0, saved = 0;
    forEachPass("gpt", options, [&](ModuleOp module, const std::string &pass) {
      if (pass != "verify-plan")
        return;
      Result<Graph> graph = buildGraph(module);
      ASSERT_TRUE(graph.isOk());
      for (const Node &node : graph->nodes) {
        moved += node.bytes;
        saved += node.bytesSaved;
      }
    }, fusion);
    return std::pair(moved, saved);
  };
  auto [fused, saved] = measure(true);
  auto [alone, none] = measure(false);
  EXPECT_EQ(none, 0u);
  EXPECT_EQ(fused + saved, alone);
  EXPECT_GT(saved, fused / 4);
}

TEST(PicturesTest, TheSameModuleGivesTheSameText) {
  auto all = [] {
    std::string text;
    frontend::ModelOptions options{.layers = 3, .heads = 2, .width = 8, .context = 4, .vocabulary = 16};
    forEachPass("gpt", options, [&](ModuleOp module, const std::string &) { text += *inspect(module, Format::Dot); });
    return text;
  };
  EXPECT_EQ(all(), all());
}

TEST(PicturesTest, TextIsTheWholeModule) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(kStep, context.get());
  Result<std::string> text = inspect(*module, Format::Text);
  ASSERT_TRUE(text.isOk());
  auto again = parseSourceString<ModuleOp>(*text, context.get());
  ASSERT_TRUE(again);
  EXPECT_NE(text->find("tape.sgd"), std::string::npos);
}

} // namespace
} // namespace tapeout::inspect
