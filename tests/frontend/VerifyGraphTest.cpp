// Each rule of a well-formed graph has its sentence.

#include "frontend/Text.h"
#include "frontend/VerifyGraph.h"
#include "tests/frontend/TestFiles.h"

#include <gtest/gtest.h>

#include <limits>

using namespace tapeout;
using namespace tapeout::frontend;

namespace {

using Kind = Initializer::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is wrong with the small graph after `damage`.
template <typename Damage> std::string problem(Damage damage) {
  Graph graph = smallGraph();
  damage(graph);
  const Status status = verifyGraph(graph);
  EXPECT_TRUE(status.isOk() || status.code() == ExitCode::BadData);
  return status.message();
}

void setInitializer(Graph &graph, Initializer initializer) { graph.parameters[0].initializer = initializer; }

TEST(VerifyGraph, acceptsTheSmallGraph) {
  EXPECT_EQ(problem([](Graph &) {}), "");
}

TEST(VerifyGraph, refusesValuesThatDoNotExistYet) {
  EXPECT_EQ(problem([](Graph &g) { g.nodes[0].operands = {3}; }),
            "node 0 ('a') uses value 3, but only values below 3 exist before it");
  EXPECT_EQ(problem([](Graph &g) { g.nodes[1].operands = {UINT32_MAX}; }),
            "node 1 ('b') uses value 4294967295, but only values below 4 exist before it");
  EXPECT_EQ(problem([](Graph &g) { g.output = 6; }), "the output is value 6, but there are only 6 values");
}

TEST(VerifyGraph, refusesImpossibleResultCounts) {
  const std::string rule = " results, but it must have at least one and the model at most 1048576 values";
  EXPECT_EQ(problem([](Graph &g) { g.nodes[0].resultCount = 0; }), "node 0 ('a') has 0" + rule);
  EXPECT_EQ(problem([](Graph &g) { g.nodes[1].resultCount = UINT32_MAX; }), "node 1 ('b') has 4294967295" + rule);
}

TEST(VerifyGraph, refusesBadNames) {
  EXPECT_EQ(problem([](Graph &g) { g.name.clear(); }), "the model has no name");
  EXPECT_EQ(problem([](Graph &g) { g.nodes[0].name.clear(); }), "node 0 has no name");
  EXPECT_EQ(problem([](Graph &g) { g.inputs[0].name = "labels"; }),
            "input 0 ('labels') has the name of the labels, which every compiled model gets by itself");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].name = "__metadata__"; }),
            "parameter 0 ('__metadata__') has the one name that a safetensors file cannot give to a tensor");
  EXPECT_EQ(problem([](Graph &g) { g.inputs[0].name = std::string(257, 'x'); }),
            "input 0 has a name of 257 bytes, more than 256");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[1].name = "a\nb"; }),
            "parameter 1 has a name that is not printable UTF-8");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[1].name = "x"; }), "two inputs or parameters have the name 'x'");
  EXPECT_EQ(problem([](Graph &g) { g.nodes[0].op = "tape.relu"; }),
            "node 0 ('a') has an op name that is not made of a-z, 0-9 and _");
}

TEST(VerifyGraph, refusesBadShapes) {
  EXPECT_EQ(problem([](Graph &g) {
              g.inputs[0].type.shape = {4, kBatch};
            }),
            "dimension 1 of input 0 ('x') is the batch, which only the first dimension of an input may be");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].type.shape = {kBatch}; }),
            "dimension 0 of parameter 0 ('a.weight') is the batch, which only the first dimension of an input may be");
  EXPECT_EQ(problem([](Graph &g) {
              g.inputs[0].type.shape = {kBatch, 0};
            }),
            "dimension 1 of input 0 ('x') is 0, but it must be positive");
  EXPECT_EQ(problem([](Graph &g) { g.inputs[0].type.shape = {-2}; }),
            "dimension 0 of input 0 ('x') is -2, but it must be positive");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].type.shape.assign(9, 1); }),
            "parameter 0 ('a.weight') has 9 dimensions, more than 8");
}

TEST(VerifyGraph, refusesSizesThatOverflow) {
  EXPECT_EQ(problem([](Graph &g) {
              g.inputs[0].type.shape = {INT64_MAX, INT64_MAX};
            }),
            "input 0 ('x') takes more than 281474976710656 bytes");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].type.shape.assign(8, int64_t{1} << 8); }),
            "parameter 0 ('a.weight') takes more than 281474976710656 bytes");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].type.shape = {int64_t{1} << 46}; }),
            "with parameter 1 ('b.weight') the parameters take more than 281474976710656 bytes");
}

TEST(VerifyGraph, refusesTooMuch) {
  EXPECT_EQ(problem([](Graph &g) { g.inputs.clear(); }), "the model has no input");
  EXPECT_EQ(problem([](Graph &g) { g.parameters.resize(1 << 16); }),
            "it has 65537 inputs and parameters, more than 65536");
  EXPECT_EQ(problem([](Graph &g) { g.nodes.resize(1 << 20); }),
            "it has more than 1048576 inputs, parameters, nodes and attributes");
  EXPECT_EQ(problem([](Graph &g) {
              g.nodes[1].attributes[0] = {"list", std::vector<int64_t>(1 << 24)};
            }),
            "its names, shapes and attributes take 134217869 bytes, more than 134217728");
}

TEST(VerifyGraph, refusesBadInitializers) {
  const std::string owner = "parameter 0 ('a.weight') ";
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::Constant, kInfinity, 0, ""});
            }),
            owner + "starts from a number that is not finite");
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::Normal, 0, -1, ""});
            }),
            owner + "starts with the negative standard deviation -1");
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::Uniform, 1, 0, ""});
            }),
            owner + "starts from the empty or endless range [1, 0)");
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::Uniform, -1e308, 1e308, ""});
            }),
            owner + "starts from the empty or endless range [-1e+308, 1e+308)");
  EXPECT_EQ(problem([](Graph &g) { g.parameters[0].type.element = ElementType::I32; }),
            owner + "starts from random numbers, but its elements are i32");
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::External, 0, 0, "w"});
            }),
            owner + "starts from a weights file, but the model names none");
  EXPECT_EQ(problem([](Graph &g) {
              setInitializer(g, {Kind::Zeros, 0, 0, "w"});
            }),
            owner + "names a tensor of the weights file, but does not start from it");
  EXPECT_EQ(problem([](Graph &g) {
              g.weightsFile = "w.safetensors";
              setInitializer(g, {Kind::External, 0, 0, ""});
            }),
            "the tensor that " + owner + "starts from has no name");
}

TEST(VerifyGraph, refusesBadAttributes) {
  const auto with = [](std::string key, Attribute value) {
    return problem([&](Graph &g) { g.nodes[1].attributes[0] = {key, value}; });
  };
  EXPECT_EQ(with("Shape", true), "attribute 0 of node 1 ('b') has a name that is not made of a-z, 0-9 and _");
  EXPECT_EQ(with("epsilon", true), "node 1 ('b') has two attributes 'epsilon'");
  EXPECT_EQ(with("rate", std::numeric_limits<double>::quiet_NaN()), "attribute 'rate' of node 1 ('b') is not a number");
  EXPECT_EQ(with("kind", std::string("\xff")), "attribute 'kind' of node 1 ('b') is not printable UTF-8");
  EXPECT_EQ(problem([](Graph &g) { g.nodes[1].attributes.resize(65); }),
            "node 1 ('b') has 65 attributes, more than 64");
}

TEST(VerifyGraph, refusesSizesThatDoNotFitTheTask) {
  const auto with = [](Task task, int64_t context, int64_t vocabulary) {
    return problem([&](Graph &g) {
      g.task = task;
      g.context = context;
      g.vocabulary = vocabulary;
    });
  };
  EXPECT_EQ(with(Task::LanguageModel, 0, 2), "a language model's context must be from 1 to 2147483647, but it is 0");
  EXPECT_EQ(with(Task::LanguageModel, 1, int64_t{1} << 31),
            "the vocabulary (or number of classes) must be from 1 to 2147483647, but it is 2147483648");
  EXPECT_EQ(with(Task::Classification, 0, -1),
            "the vocabulary (or number of classes) must be from 1 to 2147483647, but it is -1");
  EXPECT_EQ(with(Task::Classification, 1, 2), "only a language model has a context, but it is 1");
  EXPECT_EQ(with(Task::Regression, 0, 1), "a regression has no classes, but their number is 1");
  EXPECT_EQ(with(Task::MaskedLanguageModel, 1, 5), "the mask token -1 is not in the vocabulary of 5");
  const auto masked = [](Task task, int64_t maskToken) {
    return problem([&](Graph &g) {
      g.task = task;
      g.context = task == Task::Regression ? 0 : 1;
      g.vocabulary = task == Task::Regression ? 0 : 5;
      g.maskToken = maskToken;
    });
  };
  EXPECT_EQ(masked(Task::MaskedLanguageModel, 4), "");
  EXPECT_EQ(masked(Task::MaskedLanguageModel, 5), "the mask token 5 is not in the vocabulary of 5");
  EXPECT_EQ(masked(Task::Regression, 4), "only a masked language model has a mask token, but it is 4");
}

TEST(VerifyGraph, refusesWeightsFilesElsewhere) {
  for (std::string file : {"/etc/passwd", "../w", "a/../../w", "a//w", "a/", "./w", ".."})
    EXPECT_EQ(problem([&](Graph &g) { g.weightsFile = file; }),
              "the weights file '" + file + "' is not a plain path inside the folder of the model file");
  EXPECT_EQ(problem([](Graph &g) { g.weightsFile = "weights/w..safetensors"; }), "");
  EXPECT_EQ(problem([](Graph &g) { g.weightsFile = std::string("w\0x", 3); }),
            "the weights file has a name that is not printable UTF-8");
}

TEST(PrintableUtf8, acceptsTextOfAnyLanguage) {
  for (const char *text : {"", "blocks.0.attn",
                           "gr\xc3\xb6\xc3\x9f"
                           "e",
                           "\xe5\xb1\xa4", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(isPrintableUtf8(text)) << text;
}

TEST(PrintableUtf8, refusesWhatATerminalWouldObeyOrMisread) {
  EXPECT_FALSE(isPrintableUtf8("\x1b[2J"));
  EXPECT_FALSE(isPrintableUtf8("a\tb"));
  EXPECT_FALSE(isPrintableUtf8("\x7f"));
  EXPECT_FALSE(isPrintableUtf8("\xc2\x9b"));         // C1 control
  EXPECT_FALSE(isPrintableUtf8("\xc0\xaf"));         // overlong slash
  EXPECT_FALSE(isPrintableUtf8("\xed\xa0\x80"));     // surrogate
  EXPECT_FALSE(isPrintableUtf8("\xf4\x90\x80\x80")); // above U+10FFFF
  EXPECT_FALSE(isPrintableUtf8("\xff"));
  EXPECT_FALSE(isPrintableUtf8("\xe5\xb1"));     // cut off
  EXPECT_FALSE(isPrintableUtf8("\x80"));         // no lead byte
  EXPECT_FALSE(isPrintableUtf8("\xe2\x80\xae")); // right-to-left override
}

} // namespace
