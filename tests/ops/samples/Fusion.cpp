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
             auto fusion = b.create<FusionOp>(t.loc(), TypeRange{x[0].getType(), x[0].getType()}, x, /*tensors=*/1);
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
           }},
          // Three tensors in one kernel: 2 units and a rest, fewer than a vector, an exact vector.
          {"fusion_of_three_tensors", {floats({5, 1001}), floats({3}), floats({16}), floats({})},
           [](TapeBuilder &t, ValueRange x) -> Value {
             OpBuilder &b = t.builder();
             SmallVector<Type> types;
             for (Value tensor : x.drop_back())
               types.append(2, tensor.getType());
             auto fusion = b.create<FusionOp>(t.loc(), types, x, /*tensors=*/3);
             OpBuilder::InsertionGuard guard(b);
             Block *body = b.createBlock(&fusion.getBody());
             for (Value operand : x)
               body->addArgument(operand.getType(), t.loc());
             SmallVector<Value> results;
             for (BlockArgument tensor : body->getArguments().drop_back()) {
               Value product = t.mul(body->getArguments().back(), tensor);
               results.append({t.sub(product, tensor), product});
             }
             b.create<YieldOp>(t.loc(), results);
             return fusion.getResult(0);
           },
           [](const Arrays &x) {
             Arrays result;
             for (const auto &tensor : {x[0], x[1], x[2]}) {
               result.push_back(mapUnary({tensor}, [&](double v) { return v * x[3][0] - v; })[0]);
               result.push_back(mapUnary({tensor}, [&](double v) { return v * x[3][0]; })[0]);
             }
             return result;
           }}};
}

} // namespace tapeout::ops
