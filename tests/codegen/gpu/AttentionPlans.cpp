// gpu-attention-plans FOLDER [TARGET]: for each of kernelAttentionCases a plan whose gradients of attention are our own kernels,
// under its file name; tapeout-gpu-test checks them. TARGET: cuda:sm_90 by default.
#include "tests/codegen/gpu/PlanFile.h"
#include "tests/runtime/AttentionCases.h"

#include <fmt/format.h>

namespace tapeout {
namespace {

using rt::test::KernelAttentionCase;

/// As attentionPlan's program, with the sums of dqkv over batch and tokens.
std::string moduleOf(const KernelAttentionCase &attention, const std::string &target) {
  const rt::test::AttentionShape &s = attention.shape;
  auto tensor = [&](std::initializer_list<int64_t> sizes, const std::string &element) {
    std::string text = "tensor<";
    for (int64_t size : sizes)
      text += std::to_string(size) + "x";
    return text + element + ">";
  };
  const std::string element = s.type == ElementType::BF16 ? "bf16" : "f16";
  const std::string packed = tensor({s.batch, s.tokens, 3 * s.width()}, element);
  const std::string rows = tensor({s.batch, s.tokens, s.width()}, element);
  const std::string heads = tensor({s.batch, s.tokens, s.heads, s.size}, element);
  const std::string lse = tensor({s.batch, s.heads, s.tokens}, "f32"), bias = tensor({3 * s.width()}, "f32");
  std::string body, results = "%o, %lse, %dqkv", types = fmt::format("{}, {}, {}", rows, lse, packed);
  std::string named = fmt::format("{} {{tape.name = \"o\"}}, {} {{tape.name = \"lse\"}}, {} {{tape.name = \"dqkv\"}}",
                                  rows, lse, packed);
  body += fmt::format("  %0, %1, %2 = tape.split %qkv dim 2 into 3 : {}\n", packed);
  auto asHeads = [&](const char *to, const char *from) {
    body += fmt::format("  {} = tape.reshape {} to [{}, {}, {}, {}] : {}\n", to, from, s.batch, s.tokens, s.heads,
                        s.size, rows);
  };
  auto asRows = [&](const char *to, const char *from) {
    body += fmt::format("  {} = tape.reshape {} to [{}, {}, {}] : {}\n", to, from, s.batch, s.tokens, s.width(), heads);
  };
  asHeads("%q", "%0"), asHeads("%k", "%1"), asHeads("%v", "%2"), asHeads("%do_heads", "%do");
  const std::string how = fmt::format("{{causal = {}, scale = {:.17e}}}", s.causal, s.scale());
  body += fmt::format("  %y, %lse = tape.attention %q, %k, %v {} : {}, {}, {}\n", how, heads, heads, heads);
  body +=
      fmt::format("  %g:3 = tape.attention_grad %q, %k, %v, %y, %lse, %do_heads {0} : {1}, {1}, {1}, {1}, {2}, {1}\n",
                  how, heads, lse);
  asRows("%o", "%y"), asRows("%dq", "%g#0"), asRows("%dk", "%g#1"), asRows("%dv", "%g#2");
  body += fmt::format("  %dqkv = tape.concatenate %dq, %dk, %dv dim 2 : {0}, {0}, {0}\n", rows);
  if (attention.sums) {
    body += fmt::format("  %wide = tape.convert %dqkv to f32 : {}\n", packed);
    body += fmt::format("  %sums = tape.reduce \"sum\" %wide over [0, 1] : {}\n",
                        tensor({s.batch, s.tokens, 3 * s.width()}, "f32"));
    results += ", %sums", types += ", " + bias, named += fmt::format(", {} {{tape.name = \"sums\"}}", bias);
  }
  return fmt::format("module attributes {{tape.target = \"{}\"}} {{\n"
                     "func.func @attention(%qkv: {} {{tape.role = \"input\", tape.name = \"qkv\"}}, "
                     "%do: {} {{tape.role = \"input\", tape.name = \"do\"}}) -> ({}) {{\n{}  return {} : {}\n}}\n}}\n",
                     target, packed, rows, named, body, results, types);
}

} // namespace
} // namespace tapeout

int main(int count, char **arguments) {
  return tapeout::writePlans(count, arguments, tapeout::rt::test::kernelAttentionCases(), tapeout::moduleOf);
}
