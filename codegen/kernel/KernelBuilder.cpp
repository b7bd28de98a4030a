#include "codegen/kernel/KernelBuilder.h"

#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tapeout::codegen {

//===- Integers --------------------------------------------------------------------------------------------------===//

Value KernelBuilder::integer(int64_t value) {
  return builder_.create<arith::ConstantOp>(loc_, builder_.getIntegerAttr(indexType(), value));
}
Value KernelBuilder::add(Value a, Value b) { return builder_.createOrFold<arith::AddIOp>(loc_, a, b); }
Value KernelBuilder::subtract(Value a, Value b) { return builder_.createOrFold<arith::SubIOp>(loc_, a, b); }
Value KernelBuilder::multiply(Value a, Value b) { return builder_.create<arith::MulIOp>(loc_, a, b); }
Value KernelBuilder::multiply(Value a, int64_t factor) {
  return factor == 1 ? a : builder_.createOrFold<arith::MulIOp>(loc_, a, integer(factor));
}
Value KernelBuilder::divide(Value a, int64_t divisor) {
  return divisor == 1 ? a : builder_.createOrFold<arith::DivUIOp>(loc_, a, integer(divisor));
}
Value KernelBuilder::remainder(Value a, int64_t divisor) {
  return divisor == 1 ? integer(0) : builder_.createOrFold<arith::RemUIOp>(loc_, a, integer(divisor));
}
Value KernelBuilder::minimum(Value a, Value b) { return builder_.createOrFold<arith::MinSIOp>(loc_, a, b); }
Value KernelBuilder::equal(Value a, int64_t b) {
  return builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::eq, a, integer(b));
}
Value KernelBuilder::inRange(Value a, int64_t bound) {
  Value limit = builder_.create<arith::ConstantOp>(loc_, builder_.getIntegerAttr(a.getType(), bound));
  return builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ult, a, limit);
}
Value KernelBuilder::less(Value a, int64_t b) {
  return builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::slt, a, integer(b));
}
Value KernelBuilder::toIndex(Value a) {
  unsigned bits = a.getType().getIntOrFloatBitWidth();
  if (bits == indexBits_)
    return a;
  if (bits < indexBits_)
    return builder_.create<arith::ExtSIOp>(loc_, indexType(), a);
  return builder_.create<arith::TruncIOp>(loc_, indexType(), a);
}

KernelBuilder::Values KernelBuilder::delinearize(Value number, ArrayRef<int64_t> extents) {
  Values indices(extents.size());
  for (size_t i = extents.size(); i-- > 0;) {
    indices[i] = i == 0 ? number : remainder(number, extents[i]);
    if (i > 0)
      number = divide(number, extents[i]);
  }
  return indices;
}

Value KernelBuilder::linear(int64_t offset, ArrayRef<int64_t> strides, ValueRange indices) {
  Value sum;
  for (auto [stride, index] : llvm::zip_equal(strides, indices)) {
    if (stride == 0)
      continue;
    Value term = multiply(index, stride);
    sum = sum ? add(sum, term) : term;
  }
  if (!sum)
    return integer(offset);
  return offset == 0 ? sum : add(sum, integer(offset));
}

//===- Control flow ----------------------------------------------------------------------------------------------===//

void KernelBuilder::loop(Value from, Value to, int64_t step, Ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value i, Values) {
    body(i);
    return Values();
  });
}

KernelBuilder::Values KernelBuilder::loop(Value from, Value to, int64_t step, ValueRange carried,
                                          Ref<Values(Value, Values)> body) {
  auto loop = builder_.create<scf::ForOp>(loc_, from, to, integer(step), carried,
                                          [&](OpBuilder &, Location loc, Value i, ValueRange arguments) {
                                            OpBuilder::InsertionGuard guard(builder_);
                                            Block *block = i.getParentBlock();
                                            builder_.setInsertionPointToEnd(block);
                                            builder_.create<scf::YieldOp>(loc, body(i, Values(arguments)));
                                          });
  return Values(loop.getResults());
}

void KernelBuilder::ifElse(Value condition, Ref<void()> then, Ref<void()> otherwise) {
  auto op = builder_.create<scf::IfOp>(loc_, condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(op.thenBlock());
  then();
  if (otherwise) {
    builder_.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}
void KernelBuilder::ifThen(Value condition, Ref<void()> then) { ifElse(condition, then, nullptr); }

void KernelBuilder::vectors(int64_t extent, unsigned count, Ref<void(Value, Lanes)> body) {
  int64_t whole = extent / count * count;
  if (whole > 0)
    loop(integer(0), integer(whole), count, [&](Value i) { body(i, {count, count}); });
  if (whole < extent)
    body(integer(whole), {count, static_cast<unsigned>(extent - whole)});
}

//===- Lanes -----------------------------------------------------------------------------------------------------===//

Type KernelBuilder::laneType(Type element, unsigned count) const {
  return count == 1 ? element : VectorType::get({count}, element);
}

Value KernelBuilder::splat(Value scalar, unsigned count) {
  if (count == 1)
    return scalar;
  Value vector = builder_.create<LLVM::PoisonOp>(loc_, laneType(scalar.getType(), count));
  vector = builder_.create<LLVM::InsertElementOp>(loc_, vector, scalar, integer(0));
  return builder_.create<LLVM::ShuffleVectorOp>(loc_, vector, vector, SmallVector<int32_t>(count, 0));
}

Value KernelBuilder::sequence(Value base, int64_t stride, unsigned count) {
  if (count == 1)
    return base;
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < count; ++lane)
    steps.push_back(lane * stride);
  auto type = cast<VectorType>(laneType(indexType(), count));
  SmallVector<Attribute> attributes;
  for (int64_t step : steps)
    attributes.push_back(builder_.getIntegerAttr(indexType(), step));
  Value offsets = builder_.create<arith::ConstantOp>(loc_, DenseElementsAttr::get(type, attributes));
  return builder_.create<arith::AddIOp>(loc_, splat(base, count), offsets);
}

Value KernelBuilder::constant(Type element, unsigned count, double number) {
  element = tape::computeType(element);
  TypedAttr attr;
  if (isa<FloatType>(element))
    attr = builder_.getFloatAttr(element, number);
  else
    attr = builder_.getIntegerAttr(element, static_cast<int64_t>(number));
  if (count > 1)
    attr = DenseElementsAttr::get(cast<VectorType>(laneType(element, count)), Attribute(attr));
  return builder_.create<arith::ConstantOp>(loc_, attr);
}

Value KernelBuilder::mask(Lanes lanes) {
  SmallVector<bool> bits(lanes.count, false);
  std::fill_n(bits.begin(), lanes.active, true);
  auto type = cast<VectorType>(laneType(builder_.getI1Type(), lanes.count));
  return builder_.create<arith::ConstantOp>(loc_, DenseElementsAttr::get(type, ArrayRef(bits)));
}

// Integers are 1: a body may divide by them.
Value KernelBuilder::inactive(Type memory, unsigned count) {
  return constant(memory, count, memory.isInteger(32) || memory.isInteger(64));
}

Value KernelBuilder::selectActive(Lanes lanes, Value value, Value other) {
  if (lanes.active == lanes.count)
    return value;
  return builder_.create<arith::SelectOp>(loc_, mask(lanes), value, other);
}

Value KernelBuilder::round(Value value, Type element) {
  tape::ScalarBuilder s(builder_, loc_);
  return s.convert(s.convert(value, element), tape::computeType(element));
}

Value KernelBuilder::convertIndex(Value integers, Type element) {
  auto vector = dyn_cast<VectorType>(integers.getType());
  Type type = laneType(element, vector ? vector.getNumElements() : 1);
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits == indexBits_)
    return integers;
  if (bits > indexBits_)
    return builder_.create<arith::ExtUIOp>(loc_, type, integers);
  return builder_.create<arith::TruncIOp>(loc_, type, integers);
}

Value KernelBuilder::addElements(Value a, Value b) { return builder_.create<arith::AddFOp>(loc_, a, b); }
Value KernelBuilder::multiplyElements(Value a, Value b) { return builder_.create<arith::MulFOp>(loc_, a, b); }

Value KernelBuilder::combineLanes(Value vector, Ref<Value(Value, Value)> combine) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  int64_t half = type.getNumElements() / 2;
  auto part = [&](int64_t from) -> Value {
    if (half == 1)
      return builder_.create<LLVM::ExtractElementOp>(loc_, vector, integer(from));
    return builder_.create<LLVM::ShuffleVectorOp>(loc_, vector, vector,
                                                  llvm::to_vector(llvm::seq<int32_t>(from, from + half)));
  };
  Value low = part(0), high = part(half);
  return combineLanes(combine(low, high), combine);
}

//===- Memory ----------------------------------------------------------------------------------------------------===//

// Both 16-bit types are integers in memory: vectors of them can be masked on every processor.
Type KernelBuilder::memoryType(Type element) const {
  if (tape::isLowPrecision(element))
    return builder_.getI16Type();
  return element.isInteger(1) ? builder_.getI8Type() : element;
}

Value KernelBuilder::toLanes(Value memory, Type element) {
  if (memory.getType() == tape::withElement(memory.getType(), element))
    return memory;
  if (tape::isLowPrecision(element)) {
    Value narrow = builder_.create<arith::BitcastOp>(loc_, tape::withElement(memory.getType(), element), memory);
    return tape::ScalarBuilder(builder_, loc_).convert(narrow, builder_.getF32Type());
  }
  Value zero = builder_.create<arith::ConstantOp>(loc_, builder_.getZeroAttr(memory.getType()));
  return builder_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ne, memory, zero);
}

Value KernelBuilder::toMemory(Value value, Type element) {
  Type memory = tape::withElement(value.getType(), memoryType(element));
  if (value.getType() == memory)
    return value;
  if (!tape::isLowPrecision(element))
    return builder_.create<arith::ExtUIOp>(loc_, memory, value);
  // What has just been rounded to the type need not be rounded again.
  auto widened = value.getDefiningOp<arith::ExtFOp>();
  bool rounded = widened && getElementTypeOrSelf(widened.getIn().getType()) == element;
  Value narrow = rounded ? widened.getIn() : tape::ScalarBuilder(builder_, loc_).convert(value, element);
  return builder_.create<arith::BitcastOp>(loc_, memory, narrow);
}

unsigned KernelBuilder::alignment(Type memory, unsigned evenness) const {
  return tape::elementBytes(memory) * (aligned_ ? evenness : 1);
}

// Whole vectors of short elements as 32-bit words: LLVM's NVPTX backend reads four 16-bit elements by two instructions.
Type KernelBuilder::loadType(Type vector, unsigned evenness) const {
  auto lanes = dyn_cast<VectorType>(vector);
  if (!lanes || !aligned_ || lanes.getNumElements() > evenness)
    return vector;
  int64_t bytes = lanes.getNumElements() * tape::elementBytes(lanes.getElementType());
  bool isShort = tape::elementBytes(lanes.getElementType()) < 4 && bytes % 4 == 0;
  return isShort ? laneType(builder_.getI32Type(), bytes / 4) : vector;
}

Value KernelBuilder::address(Value pointer, Type element, Value offset) {
  return builder_.create<LLVM::GEPOp>(loc_, pointer.getType(), element, pointer, LLVM::GEPArg(offset),
                                      /*inbounds=*/true);
}

Value KernelBuilder::load(Value pointer, Type element, Value offset, int64_t stride, Lanes lanes, unsigned evenness) {
  Type memory = memoryType(element), type = laneType(memory, lanes.count);
  unsigned alignment = tape::elementBytes(element);
  Value value;
  if (lanes.count == 1 || stride == 0) {
    value = builder_.create<LLVM::LoadOp>(loc_, memory, address(pointer, memory, offset), alignment);
    if (lanes.count > 1)
      value = splat(value, lanes.count);
  } else if (stride == 1 && lanes.active == lanes.count) {
    Value words = builder_.create<LLVM::LoadOp>(loc_, loadType(type, evenness), address(pointer, memory, offset),
                                                this->alignment(memory, evenness));
    value = words.getType() == type ? words : builder_.create<LLVM::BitcastOp>(loc_, type, words).getResult();
  } else if (stride == 1) {
    value = builder_.create<LLVM::MaskedLoadOp>(loc_, type, address(pointer, memory, offset), mask(lanes),
                                                ValueRange{inactive(memory, lanes.count)}, alignment);
  } else {
    value = inactive(memory, lanes.count);
    for (unsigned lane = 0; lane < lanes.active; ++lane) {
      Value place = address(pointer, memory, add(offset, integer(lane * stride)));
      Value scalar = builder_.create<LLVM::LoadOp>(loc_, memory, place, alignment);
      value = builder_.create<LLVM::InsertElementOp>(loc_, value, scalar, integer(lane));
    }
  }
  return toLanes(value, element);
}

void KernelBuilder::store(Value pointer, Type element, Value offset, Value value, Lanes lanes, unsigned evenness) {
  Type memory = memoryType(element);
  unsigned alignment = tape::elementBytes(element);
  value = toMemory(value, element);
  Value place = address(pointer, memoryType(element), offset);
  if (lanes.active == lanes.count)
    builder_.create<LLVM::StoreOp>(loc_, value, place, this->alignment(memory, evenness));
  else
    builder_.create<LLVM::MaskedStoreOp>(loc_, value, place, mask(lanes), alignment);
}

Value KernelBuilder::loadPointer(Value table, Value index) {
  return builder_.create<LLVM::LoadOp>(loc_, table.getType(), address(table, table.getType(), index), 8);
}

Value KernelBuilder::table(ArrayRef<int64_t> values) {
  auto function = builder_.getInsertionBlock()->getParentOp()->getParentOfType<LLVM::LLVMFuncOp>();
  if (!function)
    function = cast<LLVM::LLVMFuncOp>(builder_.getInsertionBlock()->getParentOp());
  auto module = function->getParentOfType<ModuleOp>();
  unsigned number = 0;
  std::string name;
  do
    name = (function.getSymName() + "_table" + Twine(number++)).str();
  while (module.lookupSymbol(name));
  OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
  Type type = LLVM::LLVMArrayType::get(builder_.getI64Type(), values.size());
  auto global = outside.create<LLVM::GlobalOp>(loc_, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                                               builder_.getI64TensorAttr(values), /*alignment=*/8);
  return builder_.create<LLVM::AddressOfOp>(loc_, global);
}

Value KernelBuilder::loadInteger(Value table, Value index) {
  return toIndex(load(table, builder_.getI64Type(), index, 0, {1, 1}));
}

void KernelBuilder::copy(Value from, Value fromOffset, Value to, Value toOffset, Type element, int64_t extent) {
  Type bits = memoryType(element);
  vectors(extent, 16, [&](Value i, Lanes lanes) {
    store(to, bits, add(toOffset, i), load(from, bits, add(fromOffset, i), 1, lanes), lanes);
  });
}

} // namespace tapeout::codegen
