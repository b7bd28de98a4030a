// Sums of rows of a gradient that are given by positions in an order. A thread has a vector of columns and adds row after
// row, a few of them read together; what a block adds is at most two pieces and the sums of other pieces.
#include "codegen/cuda/Schedules.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {

using Values = KernelBuilder::Values;
constexpr int64_t kPiece = tape::SumSortedPiecesOp::kPiece;
constexpr int64_t kMostThreads = 256;
constexpr int64_t kInFlight = 4; // rows that a thread reads together

/// The thread's columns of matrices of one width, and what it adds up in them.
class ColumnSum {
public:
  ColumnSum(CudaKernelBuilder &kernel, int64_t width, Type sumType) : k_(kernel), width_(width) {
    while (width % lanes_ != 0)
      lanes_ /= 2;
    vectors_ = width / lanes_;
    threads_ = std::min<int64_t>(llvm::alignTo(vectors_, kWarp), kMostThreads);
    int64_t across = blocksAcross();
    Value vector = k_.add(k_.multiply(k_.remainder(k_.blockIndex(), across), threads_), k_.threadIndex());
    inside_ = vectors_ % threads_ == 0 ? Value() : k_.less(vector, vectors_);
    column_ = k_.multiply(inside_ ? k_.minimum(vector, k_.integer(vectors_ - 1)) : vector, lanes_);
    zero_ = k_.constant(sumType, lanes_, 0);
  }

  int64_t blocksAcross() const { return llvm::divideCeil(vectors_, threads_); }
  Value blockDown() { return k_.divide(k_.blockIndex(), blocksAcross()); }
  LaunchShape shape(int64_t blocksDown) const { return {blocksDown * blocksAcross(), threads_}; }
  Value zero() const { return zero_; }

  /// sum + the rows rowOf(begin), rowOf(begin + 1), ... of a matrix, in this order.
  Value add(Value sum, Value matrix, Type element, Value begin, Value end, llvm::function_ref<Value(Value)> rowOf) {
    return k_.loop(begin, end, kInFlight, {sum}, [&](Value from, Values sums) {
      Values rows, values;
      for (int64_t i = 0; i < kInFlight; ++i)
        rows.push_back(rowOf(k_.minimum(k_.add(from, k_.integer(i)), k_.subtract(end, k_.integer(1)))));
      for (auto [i, row] : llvm::enumerate(rows)) {
        Value offset = k_.add(k_.multiply(row, width_), column_);
        Value value = k_.load(matrix, element, offset, 1, {lanes_, lanes_}, lanes_);
        values.push_back(k_.select(k_.below(k_.add(from, k_.integer(i)), end), value, zero_));
      }
      for (Value value : values)
        sums[0] = k_.addElements(sums[0], value);
      return sums;
    }).front();
  }

  /// The row of a matrix, and a sum.
  Value addTo(Value matrix, Type element, Value row, Value sum) {
    Value offset = k_.add(k_.multiply(row, width_), column_);
    return k_.addElements(k_.load(matrix, element, offset, 1, {lanes_, lanes_}, lanes_), sum);
  }

  void store(Value matrix, Type element, Value row, Value sum) {
    auto storeIt = [&] {
      k_.store(matrix, element, k_.add(k_.multiply(row, width_), column_), sum, {lanes_, lanes_}, lanes_);
    };
    inside_ ? k_.ifThen(inside_, storeIt) : storeIt();
  }

private:
  CudaKernelBuilder &k_;
  int64_t width_, vectors_, threads_;
  unsigned lanes_ = 4;
  Value inside_, column_, zero_;
};

Value loadPosition(CudaKernelBuilder &kernel, Value array, Value place) {
  return kernel.toIndex(kernel.load(array, kernel.builder().getI32Type(), place, 1, {1, 1}));
}

} // namespace

LaunchShape buildSumSortedPieces(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumSortedPiecesOp op) {
  int64_t ids = tape::elementCount(op.getIds().getType()), pieces = tape::shapeOf(op.getResult())[0];
  Type idType = tape::elementOf(op.getIds()), element = tape::elementOf(op.getGradient());
  Type sumType = tape::elementOf(op.getResult());
  ColumnSum columns(kernel, tape::shapeOf(op.getResult())[1], sumType);
  auto positionAt = [&](Value place) { return loadPosition(kernel, frame.operands[1], place); };
  auto idAt = [&](Value place) { return kernel.load(frame.operands[0], idType, positionAt(place), 1, {1, 1}); };

  Value piece = columns.blockDown(), begin = kernel.multiply(piece, kPiece), end = kernel.add(begin, kernel.integer(kPiece));
  Value last = kernel.minimum(end, kernel.integer(ids));
  Value isOfOne = kernel.both(kernel.same(end, last), kernel.same(idAt(begin), idAt(kernel.subtract(last, kernel.integer(1)))));
  Value sum = columns.add(columns.zero(), frame.operands[2], element, begin, kernel.select(isOfOne, end, begin), positionAt);
  columns.store(frame.results[0], sumType, piece, sum);
  return columns.shape(pieces);
}

LaunchShape buildSumSortedRows(CudaKernelBuilder &kernel, const CudaFrame &frame, tape::SumSortedRowsOp op) {
  Type element = tape::elementOf(op.getGradient()), sumType = tape::elementOf(op.getPieces());
  ColumnSum columns(kernel, tape::shapeOf(op.getResult())[1], sumType);
  auto positionAt = [&](Value place) { return loadPosition(kernel, frame.operands[0], place); };
  auto add = [&](Value sum, Value begin, Value end) {
    return columns.add(sum, frame.operands[3], element, begin, end, positionAt);
  };
  Value row = columns.blockDown(), begin = loadPosition(kernel, frame.operands[1], row);
  Value end = loadPosition(kernel, frame.operands[1], kernel.add(row, kernel.integer(1)));
  Value firstPiece = kernel.divide(kernel.add(begin, kernel.integer(kPiece - 1)), kPiece), endPiece = kernel.divide(end, kPiece);
  Value hasPieces = kernel.below(firstPiece, endPiece);
  Value sum = add(columns.zero(), begin, kernel.select(hasPieces, kernel.multiply(firstPiece, kPiece), end));
  sum = columns.add(sum, frame.operands[2], sumType, firstPiece, endPiece, [](Value piece) { return piece; });
  sum = add(sum, kernel.select(hasPieces, kernel.multiply(endPiece, kPiece), end), end);
  if (op.getBase())
    sum = columns.addTo(frame.operands[4], element, row, sum);
  columns.store(frame.results[0], element, row, sum);
  return columns.shape(tape::shapeOf(op.getResult())[0]);
}

} // namespace tapeout::codegen
