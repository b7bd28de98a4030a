#include "codegen/reference/Evaluators.h"

#include "codegen/reference/Kernels.h"
#include "codegen/reference/ScalarProgram.h"
#include "codegen/reference/Windows.h"
#include "ir/tape/Convolution.h"
#include "ir/tape/Embedding.h"
#include "ir/tape/MatMul.h"
#include "ir/tape/Pooling.h"
#include "ir/tape/Reduction.h"
#include "ir/tape/Shape.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace tapeout::tape;

namespace tapeout::codegen::reference {

namespace {
using Inputs = ArrayRef<const Values *>;
using Outputs = ArrayRef<Values *>;
using Ints = SmallVector<int64_t>;

int64_t productOf(ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

FailureOr<Evaluator> elementwise(Operation *op) {
  FailureOr<Bytecode> code = translateElementwise(op);
  if (failed(code))
    return failure();
  return Evaluator([code = std::move(*code)](Inputs inputs, Outputs outputs) {
    SmallVector<const double *> sources;
    SmallVector<double *> targets;
    for (const Values *input : inputs)
      sources.push_back(input->data());
    for (Values *output : outputs)
      targets.push_back(output->data());
    code.run(sources, targets, outputs[0]->size());
    return success();
  });
}

FailureOr<Evaluator> reduction(ReduceOp op) {
  FailureOr<Bytecode> code = translateCombiner(op);
  if (failed(code))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(op.getOperand()), dimensions = op.getDimensions();
  int64_t outer = productOf(shape.take_front(dimensions.front()));
  int64_t inner = productOf(shape.drop_front(dimensions.back() + 1));
  int64_t extent = productOf(shape) / outer / inner;
  return Evaluator([=, code = std::move(*code), type = elementOf(op.getResult())](Inputs inputs, Outputs outputs) {
    reduce(code, inputs[0]->data(), outputs[0]->data(), outer, extent, inner);
    roundTo(type, *outputs[0]);
    return success();
  });
}

Evaluator sumOfSquaresParts(SumOfSquaresPartsOp op) {
  return [type = elementOf(op.getResult()), scaled = op.getScale() != nullptr](Inputs inputs, Outputs outputs) {
    size_t part = 0;
    double scale = scaled ? inputs.back()->front() : 1;
    for (const Values *input : inputs.drop_back(scaled))
      for (size_t begin = 0; begin < input->size(); begin += SumOfSquaresPartsOp::kPart, ++part)
        for (size_t i = begin; i < std::min<size_t>(begin + SumOfSquaresPartsOp::kPart, input->size()); ++i)
          (*outputs[0])[part] += std::pow((*input)[i] * scale, 2);
    roundTo(type, *outputs[0]);
    return success();
  };
}

FailureOr<Evaluator> access(AccessOpInterface op) {
  std::optional<StridedAccess> access = op.getAccess();
  if (!access)
    return FailureOr<Evaluator>(op.emitOpError("has no strided access to its operand"));
  Ints shape(shapeOf(op->getResult(0)));
  return Evaluator([access = *access, shape](Inputs inputs, Outputs outputs) {
    gather(inputs[0]->data() + access.offset, shape, access.strides, outputs[0]->data());
    return success();
  });
}

// How to read an operand of a product with its dimensions in the order batch, rows, columns.
struct MatrixView {
  Ints shape, strides;
  MatrixView(ArrayRef<int64_t> operand, ArrayRef<ArrayRef<int64_t>> groups) {
    auto all = rowMajorStrides(operand);
    for (ArrayRef<int64_t> group : groups)
      for (int64_t d : group) {
        shape.push_back(operand[d]);
        strides.push_back(all[d]);
      }
  }
};

Evaluator product(DotGeneralOp op) {
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs());
  auto freeOf = [](int64_t rank, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract) {
    Ints result;
    for (int64_t d = 0; d < rank; ++d)
      if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d))
        result.push_back(d);
    return result;
  };
  Ints lhsFree = freeOf(lhs.size(), op.getLhsBatch(), op.getLhsContract());
  Ints rhsFree = freeOf(rhs.size(), op.getRhsBatch(), op.getRhsContract());
  MatrixView left(lhs, {op.getLhsBatch(), lhsFree, op.getLhsContract()});
  MatrixView right(rhs, {op.getRhsBatch(), op.getRhsContract(), rhsFree});
  auto extent = [](ArrayRef<int64_t> shape, ArrayRef<int64_t> dimensions) {
    return productOf(llvm::map_to_vector(dimensions, [&](int64_t d) { return shape[d]; }));
  };
  int64_t batch = extent(lhs, op.getLhsBatch()), k = extent(lhs, op.getLhsContract());
  int64_t m = extent(lhs, lhsFree), n = extent(rhs, rhsFree);
  return [=, type = elementOf(op.getResult())](Inputs inputs, Outputs outputs) {
    Values packedLhs(inputs[0]->size()), packedRhs(inputs[1]->size());
    gather(inputs[0]->data(), left.shape, left.strides, packedLhs.data());
    gather(inputs[1]->data(), right.shape, right.strides, packedRhs.data());
    multiply(packedLhs.data(), packedRhs.data(), outputs[0]->data(), batch, m, n, k);
    if (inputs.size() > 2)
      llvm::transform(llvm::zip_equal(*inputs[2], *outputs[0]), outputs[0]->begin(),
                      [](const auto &pair) { return std::get<0>(pair) + std::get<1>(pair); });
    roundTo(type, *outputs[0]);
    return success();
  };
}

template <typename Pointer> Pointer argumentAt(Inputs inputs, Outputs outputs, size_t i) {
  if constexpr (std::is_same_v<Pointer, const double *>)
    return inputs[i]->data();
  else
    return outputs[i - inputs.size()]->data();
}
template <typename... Arguments, size_t... I>
void call(void (*function)(const WindowSizes &, Arguments...), const WindowSizes &sizes, Inputs inputs, Outputs outputs,
          std::index_sequence<I...>) {
  function(sizes, argumentAt<Arguments>(inputs, outputs, I)...);
}

// A function of the window's sizes, its operands and its results.
template <typename... Arguments>
FailureOr<Evaluator> window(WindowOpInterface op, void (*function)(const WindowSizes &, Arguments...)) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    types.push_back(cast<RankedTensorType>(type).getElementType());
  return Evaluator([=, sizes = op.getWindowSizes()](Inputs inputs, Outputs outputs) {
    call(function, sizes, inputs, outputs, std::index_sequence_for<Arguments...>());
    for (auto [type, output] : llvm::zip(types, outputs))
      roundTo(type, *output);
    return success();
  });
}

LogicalResult checkIds(Operation *op, const Values &ids, int64_t rows) {
  for (auto [position, id] : llvm::enumerate(ids))
    if (id < 0 || id >= static_cast<double>(rows))
      return op->emitOpError("id ") << static_cast<int64_t>(id) << " at position " << position
                                    << " is outside the table of " << rows << " rows";
  return success();
}

Evaluator lookup(EmbeddingOp op) {
  int64_t rows = shapeOf(op.getTable())[0], width = shapeOf(op.getTable())[1];
  return [=](Inputs inputs, Outputs outputs) {
    const Values &table = *inputs[0], &ids = *inputs[1];
    if (failed(checkIds(op, ids, rows)))
      return failure();
    double *out = outputs[0]->data();
    for (double id : ids)
      out = std::copy_n(table.data() + static_cast<int64_t>(id) * width, width, out);
    return success();
  };
}

Evaluator lookupGradient(EmbeddingGradOp op) {
  int64_t rows = shapeOf(op.getResult())[0], width = shapeOf(op.getResult())[1];
  return [=, type = elementOf(op.getResult())](Inputs inputs, Outputs outputs) {
    const Values &ids = *inputs[0];
    if (failed(checkIds(op, ids, rows)))
      return failure();
    const double *gradient = inputs[1]->data();
    for (double id : ids)
      for (int64_t i = 0; i < width; ++i)
        (*outputs[0])[static_cast<int64_t>(id) * width + i] += *gradient++;
    roundTo(type, *outputs[0]);
    return success();
  };
}

Evaluator sortIds(SortIdsOp op) {
  int64_t rows = op.getRows();
  return [=](Inputs inputs, Outputs outputs) {
    const Values &ids = *inputs[0];
    auto rowOf = [&](double position) {
      double id = ids[static_cast<size_t>(position)];
      return id >= 0 && id < double(rows) ? static_cast<int64_t>(id) : rows;
    };
    Values &order = *outputs[0], &begins = *outputs[1];
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](double a, double b) { return rowOf(a) < rowOf(b); });
    for (int64_t row = 0; row <= rows; ++row)
      begins[row] = llvm::partition_point(order, [&](double position) { return rowOf(position) < row; }) - order.begin();
    return success();
  };
}

Evaluator sumSortedPieces(SumSortedPiecesOp op) {
  int64_t width = shapeOf(op.getResult())[1];
  return [=, type = elementOf(op.getResult())](Inputs inputs, Outputs outputs) {
    const Values &ids = *inputs[0], &order = *inputs[1], &gradient = *inputs[2];
    constexpr size_t kPiece = SumSortedPiecesOp::kPiece;
    auto idAt = [&](size_t place) { return ids[static_cast<size_t>(order[place])]; };
    for (size_t begin = 0; begin + kPiece <= order.size(); begin += kPiece)
      for (size_t i = begin; i < begin + kPiece && idAt(begin) == idAt(begin + kPiece - 1); ++i)
        for (int64_t column = 0; column < width; ++column)
          (*outputs[0])[begin / kPiece * width + column] += gradient[static_cast<size_t>(order[i]) * width + column];
    roundTo(type, *outputs[0]);
    return success();
  };
}

Evaluator sumSortedRows(SumSortedRowsOp op) {
  int64_t rows = shapeOf(op.getResult())[0], width = shapeOf(op.getResult())[1];
  return [=, type = elementOf(op.getResult())](Inputs inputs, Outputs outputs) {
    const Values &order = *inputs[0], &begins = *inputs[1], &gradient = *inputs[3];
    if (inputs.size() > 4)
      *outputs[0] = *inputs[4];
    for (int64_t row = 0; row < rows; ++row)
      for (size_t i = begins[row]; i < begins[row + 1]; ++i)
        for (int64_t column = 0; column < width; ++column)
          (*outputs[0])[row * width + column] += gradient[static_cast<size_t>(order[i]) * width + column];
    roundTo(type, *outputs[0]);
    return success();
  };
}

Evaluator concatenate(ConcatenateOp op) {
  int64_t outer = productOf(shapeOf(op.getResult()).take_front(op.getDimension()));
  return [=](Inputs inputs, Outputs outputs) {
    double *out = outputs[0]->data();
    for (int64_t o = 0; o < outer; ++o)
      for (const Values *part : inputs) {
        int64_t block = part->size() / outer;
        out = std::copy_n(part->data() + o * block, block, out);
      }
    return success();
  };
}
} // namespace

FailureOr<Evaluator> evaluatorOf(Operation *op) {
  if (auto facts = dyn_cast<FactsOpInterface>(op)) {
    if (facts.getFusionKind() == FusionKind::Elementwise)
      return elementwise(op);
    if (auto injective = dyn_cast<AccessOpInterface>(op))
      return access(injective);
  }
  return llvm::TypeSwitch<Operation *, FailureOr<Evaluator>>(op)
      .Case([](ReduceOp reduce) { return reduction(reduce); })
      .Case([](SumOfSquaresPartsOp op) { return FailureOr<Evaluator>(sumOfSquaresParts(op)); })
      .Case([](DotGeneralOp dot) { return FailureOr<Evaluator>(product(dot)); })
      .Case([](ConvolutionOp op) { return window(op, convolve); })
      .Case([](ConvolutionInputGradOp op) { return window(op, convolveInputGradient); })
      .Case([](ConvolutionWeightGradOp op) { return window(op, convolveWeightGradient); })
      .Case([](MaxPoolOp op) { return window(op, maxPool); })
      .Case([](MaxPoolGradOp op) { return window(op, maxPoolGradient); })
      .Case([](AvgPoolOp op) { return window(op, avgPool); })
      .Case([](AvgPoolGradOp op) { return window(op, avgPoolGradient); })
      .Case([](EmbeddingOp embedding) { return FailureOr<Evaluator>(lookup(embedding)); })
      .Case([](EmbeddingGradOp gradient) { return FailureOr<Evaluator>(lookupGradient(gradient)); })
      .Case([](SortIdsOp op) { return FailureOr<Evaluator>(sortIds(op)); })
      .Case([](SumSortedPiecesOp op) { return FailureOr<Evaluator>(sumSortedPieces(op)); })
      .Case([](SumSortedRowsOp op) { return FailureOr<Evaluator>(sumSortedRows(op)); })
      .Case([](ConcatenateOp join) { return FailureOr<Evaluator>(concatenate(join)); })
      .Default([](Operation *other) -> FailureOr<Evaluator> {
        return other->emitOpError("cannot be computed by the reference interpreter");
      });
}

void roundTo(Type elementType, Values &values) {
  Bytecode code;
  code.addInput(/*isScalar=*/false);
  uint16_t loaded = code.addRegister();
  code.append({.opcode = Opcode::LoadF, .result = loaded});
  uint16_t rounded = appendRounding(code, loaded, elementType);
  if (rounded == loaded)
    return;
  code.addOutput(rounded, /*isFloat=*/true);
  const double *source = values.data();
  double *target = values.data();
  code.run({&source, 1}, {&target, 1}, values.size());
}

} // namespace tapeout::codegen::reference
