#include "ir/tape/Random.h"

#include "runtime/base/Philox.h"
#include "tests/ops/Sample.h"

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

namespace {
// The seed has more than 32 bits, and there are more elements than the interpreter takes at a time.
constexpr double kSeed = 0x1'2345'6789'abcd, kStep = 41;
constexpr uint64_t kStream = 0xfedc'ba98;

Sample dropout(std::string name, std::vector<int64_t> shape, double rate) {
  return {"dropout_" + name, {floats(shape), scalar("i64", kSeed), scalar("i64", kStep)},
          [rate](TapeBuilder &t, ValueRange x) -> Value {
            return t.builder().create<DropoutOp>(t.loc(), x[0], x[1], x[2], APFloat(rate), kStream);
          },
          [rate](const Arrays &x) {
            Arrays result(1);
            for (uint32_t i = 0; i < x[0].size(); ++i) {
              uint32_t word = philox4x32({i, 0, uint32_t(kStep), uint32_t(kStream)}, philoxKey(uint64_t(kSeed)))[0];
              result[0].push_back(word >= rate * 0x1p32 ? x[0][i] / (1 - rate) : 0);
            }
            return result;
          }};
}
} // namespace

std::vector<Sample> randomSamples() {
  return {
      dropout("half", {7, 100}, 0.5),
      dropout("tenth", {3, 5, 31}, 0.1),
      dropout("nothing", {9}, 0.0),
      {"dropout_without_key", {floats({5})},
       [](TapeBuilder &t, ValueRange x) -> Value {
         return t.builder().create<DropoutOp>(t.loc(), x[0], Value(), Value(), APFloat(0.0), 0);
       },
       [](const Arrays &x) { return Arrays{x[0]}; }},
  };
}

} // namespace tapeout::ops
