// gpu-product-plans FOLDER [TARGET]: for each of productKernelCases a plan whose products around a GELU are our own kernels,
// under its file name; tapeout-gpu-test checks them. TARGET: cuda:sm_90 by default.
#include "tests/codegen/gpu/PlanFile.h"
#include "tests/runtime/ProductCases.h"

namespace tapeout {
namespace {

using rt::test::ProductKernelCase;

std::string moduleOf(const ProductKernelCase &c, const std::string &target) {
  const std::string element = c.type == ElementType::BF16 ? "bf16" : "f16";
  auto matrix = [&](int64_t rows, int64_t columns) { return fmt::format("tensor<{}x{}x{}>", rows, columns, element); };
  auto weight = [&](int64_t depth) { return c.featuresLast ? matrix(depth, c.features) : matrix(c.features, depth); };
  const std::string x = matrix(c.rows, c.depth), dy = matrix(c.rows, c.gradientDepth), w = weight(c.depth),
                    v = weight(c.gradientDepth);
  const std::string result = matrix(c.rows, c.features), bias = fmt::format("tensor<{}x{}>", c.features, element);
  const std::string wide = fmt::format("tensor<{}x{}xf32>", c.rows, c.features),
                    sums = fmt::format("tensor<{}xf32>", c.features);
  const int summed = c.featuresLast ? 0 : 1;
  std::string arguments, body;
  for (auto [name, type] :
       {std::pair("x", x), std::pair("w", w), std::pair("b", bias), std::pair("dy", dy), std::pair("v", v)})
    arguments += fmt::format("{}%{}: {} {{tape.role = \"input\", tape.name = \"{}\"}}", arguments.empty() ? "" : ", ",
                             name, type, name);
  auto product = [&](const char *to, const char *rows, const std::string &rowsType, const char *by,
                     const std::string &byType) {
    body += fmt::format("  {} = tape.dot_general {}, {} batch [] x [] contract [1] x [{}] : {}, {}\n", to, rows, by,
                        summed, rowsType, byType);
  };
  product("%p", "%x", x, "%w", w);
  body += fmt::format("  %r = tape.broadcast_in_dim %b to [{}, {}] dims [1] : {}\n", c.rows, c.features, bias);
  body += fmt::format("  %h = tape.add %p, %r : {0}, {0}\n", result);
  body += fmt::format("  %y = tape.gelu %h {{approximate = \"{}\"}} : {}\n", c.approximate, result);
  product("%g", "%dy", dy, "%v", v);
  body += fmt::format("  %d = tape.gelu_grad %h, %g {{approximate = \"{0}\"}} : {1}, {1}\n", c.approximate, result);
  body += fmt::format("  %f = tape.convert %d to f32 : {}\n", result);
  body += fmt::format("  %db = tape.reduce \"sum\" %f over [0] : {}\n", wide);
  return fmt::format("module attributes {{tape.target = \"{}\"}} {{\nfunc.func @products({}) -> ({} {{tape.name = "
                     "\"y\"}}, {} {{tape.name = "
                     "\"d\"}}, {} {{tape.name = \"db\"}}) {{\n{}  return %y, %d, %db : {}, {}, {}\n}}\n}}\n",
                     target, arguments, result, result, sums, body, result, result, sums);
}

} // namespace
} // namespace tapeout

int main(int count, char **arguments) {
  return tapeout::writePlans(count, arguments, tapeout::rt::test::productKernelCases(), tapeout::moduleOf);
}
