// A regression model for the tests: there is no built-in one. tests/golden/reference.py has the same.
#pragma once

#include "frontend/GraphBuilder.h"

namespace tapeout::e2e {

inline frontend::Graph buildRegressor() {
  using namespace frontend;
  GraphBuilder g("regressor", Task::Regression);
  Value x = g.input("features", {ElementType::F32, {kBatch, 8}});
  x = g.tanh(g.linear("fc", x, 16, normal(0, 0.25), zeros()));
  return g.finish(g.linear("out", x, 3, normal(0, 0.25), zeros()));
}

} // namespace tapeout::e2e
