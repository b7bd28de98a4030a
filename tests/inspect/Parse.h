// IR text for tests.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <memory>
#include <string>

namespace tapeout::inspect {

inline std::unique_ptr<mlir::MLIRContext> makeContext() {
  mlir::DialectRegistry registry;
  registry.insert<tape::TapeDialect, plan::PlanDialect, mlir::func::FuncDialect>();
  auto context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

/// One linear layer with its gradient and update.
inline constexpr const char *kStep = R"(
func.func @step(%x: tensor<4x8xf32> {tape.role = "input", tape.name = "x"},
                %w: tensor<2x8xf32> {tape.role = "parameter", tape.name = "fc.weight"},
                %config: tensor<32xf64> {tape.role = "config", tape.name = "config"})
    -> (tensor<f32> {tape.name = "loss"}, tensor<2x8xf32> {tape.updates = 1 : i64}) {
  %lr = tape.hyperparameter %config[0] {tape.phase = "optimizer"} : tensor<32xf64> loc("optimizer")
  %decay = tape.constant 0.5 to f64 {tape.phase = "optimizer"} loc("optimizer")
  %one = tape.constant 1.0 to f32 {tape.phase = "backward"} loc("loss")
  %y = tape.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xf32>, tensor<2x8xf32> loc("fc")
  %a = tape.tanh %y : tensor<4x2xf32> loc("act")
  %sum = tape.reduce "sum" %a over [0, 1] {tape.phase = "loss"} : tensor<4x2xf32> loc("loss")
  %dy = tape.broadcast_in_dim %one to [4, 2] dims [] {tape.phase = "backward"} : tensor<f32> loc("loss")
  %da = tape.multiply %dy, %a {tape.phase = "backward"} : tensor<4x2xf32>, tensor<4x2xf32> loc("act")
  %dw = tape.dot_general %da, %x batch [] x [] contract [0] x [0] {tape.phase = "backward"} : tensor<4x2xf32>, tensor<4x8xf32> loc("fc")
  %new = tape.sgd %w, %dw, %lr, %decay {tape.phase = "optimizer"} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<f64>, tensor<f64>) -> tensor<2x8xf32> loc("fc.weight")
  return %sum, %new : tensor<f32>, tensor<2x8xf32>
})";

} // namespace tapeout::inspect
