// Sums of parts of many tensors in one kernel: the bits of kernels for each of them.
#include "tests/codegen/KernelTester.h"

namespace tapeout::codegen {
namespace {

const std::pair<int64_t, int64_t> kShapes[] = {{512, 768}, {32, 32}, {100, 36}, {64, 16256}};

TEST(PartSums, AreThoseOfKernelsForOneTensor) {
  std::string alone, arguments, body, yielded, types;
  std::vector<Tensor> operands, results;
  for (auto [i, shape] :
       {std::pair(0, kShapes[0]), std::pair(1, kShapes[1]), std::pair(2, kShapes[2]), std::pair(3, kShapes[3])}) {
    std::string number = std::to_string(i), columns = std::to_string(shape.second);
    std::string type = "tensor<" + std::to_string(shape.first) + "x" + columns + "xf32>",
                result = "tensor<" + columns + "xf32>";
    std::string sum = "%r" + number + " = tape.reduce \"sum\" %a" + number + " over [0] : " + type + "\n";
    alone += "plan.kernel @alone" + number + " { ^bb0(%a" + number + ": " + type + "):\n" + sum + "tape.yield %r" +
             number + " : " + result + " }\n";
    arguments += (i ? ", %a" : "%a") + number + ": " + type;
    body += sum;
    yielded += (i ? ", %r" : "%r") + number;
    types += (i ? ", " : "") + result;
    operands.push_back(Tensor::of(randomFloats(shape.first * shape.second, -1, 1, i + 1)));
    results.push_back(Tensor::empty<float>(shape.second));
  }
  KernelTester kernels(alone + "plan.kernel @all attributes {tensors = 4 : i64} { ^bb0(" + arguments + "):\n" + body +
                       "tape.yield " + yielded + " : " + types + " }");
  ASSERT_TRUE(kernels.loaded()) << kernels.messages();
  std::vector<Tensor> all = kernels.run("all", operands, results);
  for (size_t i = 0; i < operands.size(); ++i) {
    EXPECT_TRUE(all[i].sameBits(kernels.run("alone" + std::to_string(i), {operands[i]}, {results[i]})[0])) << i;
    auto [rows, columns] = kShapes[i];
    std::vector<float> values = operands[i].values<float>();
    std::vector<double> expected(columns);
    for (int64_t j = 0; j < rows * columns; ++j)
      expected[j % columns] += values[j];
    expectNear(all[i].values<float>(), expected, 1e-5, 1e-5, "sum " + std::to_string(i));
  }
}

} // namespace
} // namespace tapeout::codegen
