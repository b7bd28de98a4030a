#include "ir/tape/Fusion.h"

#include "tests/ops/Sample.h"

#include <cmath>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::ops {

std::vector<Sample> fusionSamples() {
  return {{"fusion", {floats({3, 5}), floats({})},
           [](TapeBuilder &t, ValueRange x) -> Value {
             OpBuilder &b = t.builder();
             auto fusion = b.create<FusionOp>(t.loc(), TypeRange{x[0].getType(), x[0].getType()}, x);
             OpBuilder::InsertionGuard guard(b);
             Block *body = b.createBlock(&fusion.getBody());
             body->addArguments(x.getTypes(), {t.loc(), t.loc()});
             Value product = t.mul(body->getArgument(0), body->getArgument(1));
             Value exponential = t.exp(product);
             b.create<YieldOp>(t.loc(), ValueRange{exponential, product});
             return fusion.getResult(0);
           },
           [](const Arrays &x) {
             Arrays result(2);
             for (double element : x[0]) {
               result[0].push_back(std::exp(element * x[1][0]));
               result[1].push_back(element * x[1][0]);
             }
             return result;
           }}};
}

} // namespace tapeout::ops
