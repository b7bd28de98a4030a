// gpu-kernel-speed-plan OUTPUT [TARGET]: a plan whose programs are single computations of every schedule, most of which move
// 256 MB or more, which no cache holds; prints their names. gpu-kernel-times says how fast each is. TARGET: cuda:sm_90 by
// default.
#include "tests/codegen/gpu/PlanFile.h"

#include <cstdio>
#include <string>
#include <vector>

namespace tapeout {
namespace {

/// `body` computes %0, %1, ... from %a, %b, ...; types are those of tensors.
struct Computation {
  std::string name; // kind: what, element type and sizes
  std::vector<std::string> operands;
  std::string body;
  std::vector<std::string> results;
};

std::string functionOf(const Computation &computation) {
  std::string arguments, results, names, types;
  char name = 'a';
  for (const std::string &type : computation.operands) {
    arguments += arguments.empty() ? "" : ", ";
    arguments += std::string("%") + name + ": tensor<" + type + "> {tape.role = \"input\", tape.name = \"" + name + "\"}";
    ++name;
  }
  for (const auto &[i, type] : llvm::enumerate(computation.results)) {
    const char *separator = i == 0 ? "" : ", ";
    results += separator + ("tensor<" + type + "> {tape.name = \"") + std::to_string(i) + "\"}";
    names += separator + ("%" + std::to_string(i));
    types += separator + ("tensor<" + type + ">");
  }
  return "func.func @\"" + computation.name + "\"(" + arguments + ") -> (" + results + ") {\n" + computation.body +
         "\n  return " + names + " : " + types + "\n}\n";
}

Computation columnSum(const std::string &columns, const std::string &element) {
  std::string shape = "65536x" + columns + "x";
  return {"columns: sum, " + element + " [65536, " + columns + "]",
          {shape + element},
          "  %x = tape.convert %a to f32 : tensor<" + shape + element + ">\n"
          "  %0 = tape.reduce \"sum\" %x over [0] : tensor<" + shape + "f32>",
          {columns + "xf32"}};
}

std::vector<Computation> computations() {
  std::vector<Computation> all = {
      {"elementwise: a + b, f32 [65536, 768]",
       {"65536x768xf32", "65536x768xf32"},
       "  %0 = tape.add %a, %b : tensor<65536x768xf32>, tensor<65536x768xf32>",
       {"65536x768xf32"}},
      {"elementwise: a + b, bf16 [65536, 3072]",
       {"65536x3072xbf16", "65536x3072xbf16"},
       "  %0 = tape.add %a, %b : tensor<65536x3072xbf16>, tensor<65536x3072xbf16>",
       {"65536x3072xbf16"}},
      {"elementwise: gelu, bf16 [65536, 3072]",
       {"65536x3072xbf16"},
       "  %0 = tape.gelu %a {approximate = \"tanh\"} : tensor<65536x3072xbf16>",
       {"65536x3072xbf16"}},
      {"elementwise: gradient of gelu, bf16 [65536, 3072]",
       {"65536x3072xbf16", "65536x3072xbf16"},
       "  %0 = tape.gelu_grad %a, %b {approximate = \"tanh\"} : tensor<65536x3072xbf16>, tensor<65536x3072xbf16>",
       {"65536x3072xbf16"}},
      {"elementwise: gelu by erf, bf16 [65536, 3072]",
       {"65536x3072xbf16"},
       "  %0 = tape.gelu %a {approximate = \"none\"} : tensor<65536x3072xbf16>",
       {"65536x3072xbf16"}},
      {"elementwise: gradient of gelu by erf, bf16 [65536, 3072]",
       {"65536x3072xbf16", "65536x3072xbf16"},
       "  %0 = tape.gelu_grad %a, %b {approximate = \"none\"} : tensor<65536x3072xbf16>, tensor<65536x3072xbf16>",
       {"65536x3072xbf16"}},
      {"elementwise: relu, f32 [65536, 1024]",
       {"65536x1024xf32"},
       "  %0 = tape.relu %a : tensor<65536x1024xf32>",
       {"65536x1024xf32"}},
      {"elementwise: conversion, f32 to bf16 [65536, 1024]",
       {"65536x1024xf32"},
       "  %0 = tape.convert %a to bf16 : tensor<65536x1024xf32>",
       {"65536x1024xbf16"}},
      {"rows: layer norm, f32 to bf16 [65536, 768]",
       {"65536x768xf32", "768xf32", "768xf32"},
       R"(  %y, %mean, %rstd = tape.layer_norm %a, %b, %c eps 1.0e-05
      : (tensor<65536x768xf32>, tensor<768xf32>, tensor<768xf32>)
      -> (tensor<65536x768xf32>, tensor<65536xf32>, tensor<65536xf32>)
  %0 = tape.convert %y to bf16 : tensor<65536x768xf32>)",
       {"65536x768xbf16"}},
      {"rows: gradient of layer norm, bf16 to f32 [65536, 768]",
       {"65536x768xf32", "768xf32", "65536xf32", "65536xf32", "65536x768xbf16"},
       R"(  %dy = tape.convert %e to f32 : tensor<65536x768xbf16>
  %0 = tape.layer_norm_grad %a, %b, %c, %d, %dy
      : (tensor<65536x768xf32>, tensor<768xf32>, tensor<65536xf32>, tensor<65536xf32>, tensor<65536x768xf32>)
      -> tensor<65536x768xf32>)",
       {"65536x768xf32"}},
      {"rows: softmax, f32 [65536, 1024]",
       {"65536x1024xf32"},
       "  %0 = tape.softmax %a : tensor<65536x1024xf32>",
       {"65536x1024xf32"}},
      {"rows: softmax, bf16 [65536, 1024]",
       {"65536x1024xbf16"},
       R"(  %x = tape.convert %a to f32 : tensor<65536x1024xbf16>
  %y = tape.softmax %x : tensor<65536x1024xf32>
  %0 = tape.convert %y to bf16 : tensor<65536x1024xf32>)",
       {"65536x1024xbf16"}},
      {"rows: softmax, bf16 [8192, 50304]",
       {"8192x50304xbf16"},
       R"(  %x = tape.convert %a to f32 : tensor<8192x50304xbf16>
  %y = tape.softmax %x : tensor<8192x50304xf32>
  %0 = tape.convert %y to bf16 : tensor<8192x50304xf32>)",
       {"8192x50304xbf16"}},
      {"rows: sum, f32 [65536, 1024]",
       {"65536x1024xf32"},
       "  %0 = tape.reduce \"sum\" %a over [1] : tensor<65536x1024xf32>",
       {"65536xf32"}},
      {"columns: gradients of layer norm, bf16 to f32 [65536, 768]",
       {"65536x768xf32", "768xf32", "65536xf32", "65536xf32", "65536x768xbf16"},
       R"(  %dy = tape.convert %e to f32 : tensor<65536x768xbf16>
  %0 = tape.layer_norm_grad %a, %b, %c, %d, %dy
      : (tensor<65536x768xf32>, tensor<768xf32>, tensor<65536xf32>, tensor<65536xf32>, tensor<65536x768xf32>)
      -> tensor<65536x768xf32>
  %1, %2 = tape.layer_norm_param_grad %a, %c, %d, %dy
      : (tensor<65536x768xf32>, tensor<65536xf32>, tensor<65536xf32>, tensor<65536x768xf32>)
      -> (tensor<768xf32>, tensor<768xf32>))",
       {"65536x768xf32", "768xf32", "768xf32"}},
      {"columns: gradient of gelu and its sum, bf16 [65536, 3072]",
       {"65536x3072xbf16", "65536x3072xbf16"},
       R"(  %0 = tape.gelu_grad %a, %b {approximate = "tanh"} : tensor<65536x3072xbf16>, tensor<65536x3072xbf16>
  %x = tape.convert %0 to f32 : tensor<65536x3072xbf16>
  %1 = tape.reduce "sum" %x over [0] : tensor<65536x3072xf32>)",
       {"65536x3072xbf16", "3072xf32"}},
  };
  for (const char *element : {"f32", "bf16"})
    for (const char *columns : {"768", "2304", "3072"})
      all.push_back(columnSum(columns, element));
  return all;
}

std::string moduleOf(const std::string &target) {
  std::string text = "module attributes {tape.target = \"" + target + "\"} {\n";
  for (const Computation &computation : computations()) {
    text += functionOf(computation);
    std::puts(computation.name.c_str());
  }
  return text + "}\n";
}

} // namespace
} // namespace tapeout

int main(int count, char **arguments) {
  auto target = tapeout::driver::parseTarget(count == 3 ? arguments[2] : "cuda:sm_90");
  if ((count == 2 || count == 3) && target.isOk()) {
    tapeout::TrainingOptions options;
    options.skipped = {"fuse-multi-tensor"}; // it would join computations
    bool written = succeeded(tapeout::writePlanFile(arguments[1], tapeout::moduleOf(target->name), *target, options));
    return written ? 0 : 1;
  }
  std::fprintf(stderr, "usage: %s OUTPUT [TARGET]\n", arguments[0]);
  return 2;
}
