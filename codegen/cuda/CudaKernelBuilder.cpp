#include "codegen/cuda/CudaKernelBuilder.h"

#include "ir/tape/Tape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tapeout::codegen {
namespace {
constexpr unsigned kGlobal = 1, kShared = 3; // address spaces of NVPTX
}

Value CudaKernelBuilder::intrinsic(StringRef name, Type result, ValueRange arguments) {
  auto call = builder().create<LLVM::CallIntrinsicOp>(loc(), result ? TypeRange(result) : TypeRange(),
                                                      builder().getStringAttr(name), arguments);
  return result ? call.getResult(0) : Value();
}

Value CudaKernelBuilder::integer32(int64_t value) {
  return builder().create<arith::ConstantOp>(loc(), builder().getI32IntegerAttr(value));
}

Value CudaKernelBuilder::threadIndex() { return toIndex(intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", builder().getI32Type(), {})); }
Value CudaKernelBuilder::blockIndex() {
  return toIndex(intrinsic("llvm.nvvm.read.ptx.sreg.ctaid.x", builder().getI32Type(), {}));
}
void CudaKernelBuilder::barrier() { intrinsic("llvm.nvvm.barrier0", Type(), {}); }

Value CudaKernelBuilder::shuffleXor(Value scalar, unsigned distance) {
  Type type = scalar.getType(), i32 = builder().getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  auto exchange = [&](Value word) {
    return intrinsic("llvm.nvvm.shfl.sync.bfly.i32", i32, {integer32(-1), word, integer32(distance), integer32(kWarp - 1)});
  };
  Value word = scalar;
  if (isa<FloatType>(type))
    word = builder().create<arith::BitcastOp>(loc(), builder().getIntegerType(bits), scalar);
  if (bits < 32)
    word = builder().create<arith::TruncIOp>(loc(), word.getType(),
                                             exchange(builder().create<arith::ExtUIOp>(loc(), i32, word)));
  else if (bits == 32)
    word = exchange(word);
  else { // 64: two words
    Value shift = builder().create<arith::ConstantOp>(loc(), builder().getI64IntegerAttr(32));
    Value low = exchange(builder().create<arith::TruncIOp>(loc(), i32, word));
    Value upper = builder().create<arith::ShRUIOp>(loc(), word, shift);
    Value high = exchange(builder().create<arith::TruncIOp>(loc(), i32, upper));
    low = builder().create<arith::ExtUIOp>(loc(), builder().getI64Type(), low);
    high = builder().create<arith::ExtUIOp>(loc(), builder().getI64Type(), high);
    word = builder().create<arith::OrIOp>(loc(), low, builder().create<arith::ShLIOp>(loc(), high, shift));
  }
  return isa<FloatType>(type) ? builder().create<arith::BitcastOp>(loc(), type, word).getResult() : word;
}

Value CudaKernelBuilder::combineThreads(Value scalar, unsigned width, Ref<Value(Value, Value)> combine) {
  for (unsigned distance = width / 2; distance > 0; distance /= 2)
    scalar = combine(scalar, shuffleXor(scalar, distance));
  return scalar;
}

Value CudaKernelBuilder::combineBlock(Value scalar, unsigned threads, Ref<Value(Value, Value)> combine) {
  scalar = combineThreads(scalar, kWarp, combine);
  unsigned warps = threads / kWarp;
  if (warps == 1)
    return scalar;
  Value thread = threadIndex(), inWarp = remainder(thread, kWarp), array = sharedArray(scalar.getType(), warps);
  ifThen(equal(inWarp, 0), [&] { store(array, scalar.getType(), divide(thread, kWarp), scalar, {1, 1}); });
  barrier();
  return combineThreads(load(array, scalar.getType(), remainder(inWarp, warps), 1, {1, 1}), warps, combine);
}

Value CudaKernelBuilder::ballot(Value condition) {
  return intrinsic("llvm.nvvm.vote.ballot.sync", builder().getI32Type(), {integer32(-1), condition});
}
Value CudaKernelBuilder::countBits(Value bits) {
  return toIndex(builder().create<LLVM::CtPopOp>(loc(), bits.getType(), bits));
}
Value CudaKernelBuilder::bitsBefore(Value bits) {
  Value mask = intrinsic("llvm.nvvm.read.ptx.sreg.lanemask.lt", builder().getI32Type(), {});
  return builder().create<arith::AndIOp>(loc(), bits, mask);
}
Value CudaKernelBuilder::matchBits(Value integer) {
  Type i32 = builder().getI32Type();
  return intrinsic("llvm.nvvm.match.any.sync.i32", i32, {integer32(-1), convertIndex(integer, i32)});
}
void CudaKernelBuilder::warpBarrier() { intrinsic("llvm.nvvm.bar.warp.sync", Type(), {integer32(-1)}); }

static LLVM::LLVMFuncOp functionOf(OpBuilder &builder) {
  Operation *parent = builder.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<LLVM::LLVMFuncOp>(parent);
  return function ? function : parent->getParentOfType<LLVM::LLVMFuncOp>();
}

Value CudaKernelBuilder::sharedPointer(Type array, StringRef name, bool isDynamic) {
  auto module = functionOf(builder())->getParentOfType<ModuleOp>();
  auto global = module.lookupSymbol<LLVM::GlobalOp>(name);
  if (!global) {
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    auto linkage = isDynamic ? LLVM::Linkage::External : LLVM::Linkage::Internal;
    global = outside.create<LLVM::GlobalOp>(loc(), array, /*isConstant=*/false, linkage, name, Attribute(),
                                            /*alignment=*/16, /*addrSpace=*/kShared);
  }
  Value pointer = builder().create<LLVM::AddressOfOp>(loc(), global);
  return builder().create<LLVM::AddrSpaceCastOp>(loc(), LLVM::LLVMPointerType::get(builder().getContext()), pointer);
}

Value CudaKernelBuilder::sharedArray(Type element, int64_t count) {
  LLVM::LLVMFuncOp function = functionOf(builder());
  auto module = function->getParentOfType<ModuleOp>();
  std::string name;
  for (unsigned number = 0; number == 0 || module.lookupSymbol(name); ++number)
    name = (function.getSymName() + "_shared" + Twine(number)).str();
  Type memory = element.isInteger(1) ? builder().getI8Type() : element;
  return sharedPointer(LLVM::LLVMArrayType::get(memory, count), name, /*isDynamic=*/false);
}

std::string dynamicSharedName(StringRef symbol) { return (symbol + "_dynamic_shared").str(); }

Value CudaKernelBuilder::dynamicSharedArray(Type element, int64_t count) {
  Type i8 = builder().getI8Type();
  Value memory = sharedPointer(LLVM::LLVMArrayType::get(i8, 0), dynamicSharedName(functionOf(builder()).getSymName()),
                               /*isDynamic=*/true);
  Value array = address(memory, i8, integer(dynamicSharedBytes_));
  dynamicSharedBytes_ += llvm::alignTo(count * tape::elementBytes(element), 16);
  return array;
}

void CudaKernelBuilder::copyAsync(Value shared, Value place, Value global, Value offset, Type element, int64_t count) {
  constexpr int64_t kMostBytes = 16; // of one instruction
  Type memory = memoryType(element);
  int64_t bytes = count * tape::elementBytes(element), piece = std::min(bytes, kMostBytes);
  auto sharedType = LLVM::LLVMPointerType::get(builder().getContext(), kShared);
  Value to = address(shared, memory, place), from = address(global, memory, offset);
  // Those of 16 bytes pass by the first cache: nobody reads them from there.
  StringRef kind = piece == kMostBytes ? "cg" : "ca";
  std::string name = ("llvm.nvvm.cp.async." + kind + ".shared.global." + Twine(piece)).str();
  for (int64_t at = 0; at < bytes; at += piece) {
    Value step = integer(at);
    Value into = builder().create<LLVM::AddrSpaceCastOp>(loc(), sharedType, address(to, builder().getI8Type(), step));
    intrinsic(name, Type(), {into, globalPointer(address(from, builder().getI8Type(), step))});
  }
}

void CudaKernelBuilder::waitForCopies() { intrinsic("llvm.nvvm.cp.async.wait.all", Type(), {}); }

Value CudaKernelBuilder::globalPointer(Value pointer) {
  auto global = LLVM::LLVMPointerType::get(builder().getContext(), kGlobal);
  return builder().create<LLVM::AddrSpaceCastOp>(loc(), global, pointer);
}

Value CudaKernelBuilder::below(Value a, Value b) {
  return builder().create<arith::CmpIOp>(loc(), arith::CmpIPredicate::slt, a, b);
}
Value CudaKernelBuilder::notAbove(Value a, Value b) {
  return builder().create<arith::CmpIOp>(loc(), arith::CmpIPredicate::sle, a, b);
}
Value CudaKernelBuilder::same(Value a, Value b) {
  return builder().create<arith::CmpIOp>(loc(), arith::CmpIPredicate::eq, a, b);
}
Value CudaKernelBuilder::either(Value a, Value b) { return builder().create<arith::OrIOp>(loc(), a, b); }
Value CudaKernelBuilder::both(Value a, Value b) { return builder().create<arith::AndIOp>(loc(), a, b); }
Value CudaKernelBuilder::select(Value condition, Value a, Value b) {
  return builder().create<arith::SelectOp>(loc(), condition, a, b);
}

} // namespace tapeout::codegen
