#include "codegen/cuda/StagedRows.h"

#include "ir/tape/Tape.h"

using namespace mlir;

namespace tapeout::codegen {

Type StagedRows::Staged::element() const { return tape::elementOf(argument); }

bool StagedRows::canStage(const View &view, unsigned lanes) {
  return view.strides.back() == 1 && evennessOf(view, lanes) == lanes;
}

void StagedRows::add(BlockArgument argument, const View &view, ArrayRef<const RowPass *> readers, int64_t elements) {
  Value memory = kernel_.dynamicSharedArray(tape::elementOf(argument), elements);
  staged_.push_back({argument, view, llvm::to_vector(readers), memory});
}

bool StagedRows::isLastReader(const RowPass &pass) const {
  return llvm::any_of(staged_, [&](const Staged &staged) { return staged.readers.back() == &pass; });
}

void StagedRows::copy(const RowPass *lastReader, ArrayRef<Vector> vectors) {
  for (const Staged &staged : staged_)
    if (!lastReader || staged.readers.back() == lastReader)
      copy(staged, vectors);
}

void StagedRows::copy(const Staged &staged, ArrayRef<Vector> vectors) {
  Value pointer = pointers_[staged.argument.getArgNumber()];
  Type element = staged.element();
  auto offsetOf = [&](const Vector &vector) {
    return kernel_.linear(staged.view.offset, staged.view.strides, vector.indices);
  };
  int64_t bytes = lanes_ * tape::elementBytes(element);
  if (CudaKernelBuilder::canCopyAsync(bytes)) {
    for (const Vector &vector : vectors)
      kernel_.copyAsync(staged.memory, vector.place, pointer, offsetOf(vector), element, lanes_);
    return;
  }
  // Single elements of 16 bits: through registers, several at a time.
  SmallVector<Value> values;
  for (const Vector &vector : vectors)
    values.push_back(kernel_.load(pointer, element, offsetOf(vector), 1, {lanes_, lanes_}, lanes_));
  for (auto [vector, value] : llvm::zip_equal(vectors, values))
    kernel_.store(staged.memory, element, vector.place, value, {lanes_, lanes_}, lanes_);
}

void StagedRows::read(const RowPass &pass, Value place, KnownValues &known) {
  for (const Staged &staged : staged_)
    if (llvm::is_contained(staged.readers, &pass))
      known.add(staged.argument, staged.view,
                {kernel_.load(staged.memory, staged.element(), place, 1, {lanes_, lanes_}, lanes_)});
}

} // namespace tapeout::codegen
