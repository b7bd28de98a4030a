#include "codegen/kernel/MultiTensorPlan.h"

#include "ir/tape/Shape.h"

using namespace mlir;

namespace tapeout::codegen {

FailureOr<MultiTensorPlan> MultiTensorPlan::make(Block *region, int64_t tensors) {
  SmallVector<TensorBody> bodies = tensorBodies(region, tensors);
  SmallVector<int64_t> sizes, argumentNumbers;
  for (const TensorBody &body : bodies) {
    sizes.push_back(tape::elementCount(body.results.front().getType()));
    for (BlockArgument argument : body.arguments)
      argumentNumbers.push_back(argument.getArgNumber());
  }
  IterationSpace space(Dimension{sizes.front(), false});
  FailureOr<Expression> vectors = Expression::build(bodies.front().results, space);
  FailureOr<Expression> scalars = Expression::build(bodies.front().results, space);
  if (failed(vectors) || failed(scalars))
    return failure();
  if (space.dimensions().size() != 1)
    return region->getTerminator()->emitError("a kernel for many tensors must be elementwise");
  return MultiTensorPlan{std::move(bodies.front()), std::move(sizes), std::move(argumentNumbers), std::move(*vectors),
                         std::move(*scalars)};
}

} // namespace tapeout::codegen
