#include "codegen/reference/ScalarProgram.h"

#include "ir/tape/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

#include <optional>

using namespace mlir;

namespace tapeout::codegen::reference {

namespace {
bool isFloat(Type type) { return isa<FloatType>(type); }
uint8_t bitsOf(Type type) { return isFloat(type) ? 64 : static_cast<uint8_t>(type.getIntOrFloatBitWidth()); }

// Everything that ScalarBuilder makes, but for constants, comparisons and selections.
std::optional<Opcode> opcodeOf(Operation *op) {
  return llvm::StringSwitch<std::optional<Opcode>>(op->getName().getStringRef())
      .Case("arith.addf", Opcode::AddF)
      .Case("arith.subf", Opcode::SubF)
      .Case("arith.mulf", Opcode::MulF)
      .Case("arith.divf", Opcode::DivF)
      .Case("arith.maximumf", Opcode::MaxF)
      .Case("arith.minimumf", Opcode::MinF)
      .Case("arith.negf", Opcode::NegF)
      .Case("math.powf", Opcode::PowF)
      .Case("math.fma", Opcode::FmaF)
      .Case("math.exp", Opcode::ExpF)
      .Case("math.log", Opcode::LogF)
      .Case("math.sqrt", Opcode::SqrtF)
      .Case("math.tanh", Opcode::TanhF)
      .Case("math.erf", Opcode::ErfF)
      .Case("math.cos", Opcode::CosF)
      .Case("math.sin", Opcode::SinF)
      .Case("arith.addi", Opcode::AddI)
      .Case("arith.subi", Opcode::SubI)
      .Case("arith.muli", Opcode::MulI)
      .Case("arith.divsi", Opcode::DivI)
      .Case("arith.divui", Opcode::DivU)
      .Case("arith.remui", Opcode::RemU)
      .Case("arith.maxsi", Opcode::MaxI)
      .Case("arith.minsi", Opcode::MinI)
      .Case("arith.andi", Opcode::AndI)
      .Case("arith.xori", Opcode::XorI)
      .Case("arith.shrui", Opcode::ShiftRightU)
      .Case("arith.extsi", Opcode::ExtendI)
      .Case("arith.extui", Opcode::ExtendU)
      .Case("arith.trunci", Opcode::Truncate)
      .Case("arith.fptosi", Opcode::FloatToI)
      .Case("arith.sitofp", Opcode::IToFloat)
      .Case("arith.uitofp", Opcode::UToFloat)
      .Default(std::nullopt);
}

std::optional<Opcode> opcodeOf(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ: return Opcode::EqF;
  case arith::CmpFPredicate::UNE: return Opcode::NeF;
  case arith::CmpFPredicate::OLT: return Opcode::LtF;
  case arith::CmpFPredicate::OLE: return Opcode::LeF;
  case arith::CmpFPredicate::OGT: return Opcode::GtF;
  case arith::CmpFPredicate::OGE: return Opcode::GeF;
  default: return std::nullopt;
  }
}

std::optional<Opcode> opcodeOf(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq: return Opcode::EqI;
  case arith::CmpIPredicate::ne: return Opcode::NeI;
  case arith::CmpIPredicate::slt: return Opcode::LtI;
  case arith::CmpIPredicate::sle: return Opcode::LeI;
  case arith::CmpIPredicate::sgt: return Opcode::GtI;
  case arith::CmpIPredicate::sge: return Opcode::GeI;
  default: return std::nullopt;
  }
}

class Translator {
public:
  // Builds a body of `op` in a block of its own and translates it.
  using Build = llvm::function_ref<void(OpBuilder &, ValueRange, Value, SmallVectorImpl<Value> &)>;
  FailureOr<Bytecode> translate(Operation *op, TypeRange argumentTypes, ArrayRef<bool> scalars, Build build);

private:
  LogicalResult translateOne(Operation &op);
  uint16_t append(Instruction instruction, Type type);

  Bytecode code_;
  llvm::DenseMap<Value, uint16_t> registers_;
};

uint16_t Translator::append(Instruction instruction, Type type) {
  instruction.result = code_.addRegister();
  instruction.bits = bitsOf(type);
  code_.append(instruction);
  return instruction.result;
}

LogicalResult Translator::translateOne(Operation &op) {
  Type type = op.getResult(0).getType();
  Instruction instruction{};
  for (auto [i, operand] : llvm::enumerate(op.getOperands()))
    instruction.operands[i] = registers_.lookup(operand);
  for (size_t i = std::max<size_t>(op.getNumOperands(), 1); i < 3; ++i)
    instruction.operands[i] = instruction.operands[0];
  if (op.getNumOperands() > 0)
    instruction.operandBits = bitsOf(op.getOperand(0).getType());

  std::optional<Opcode> opcode;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      instruction.constantF = number.getValueAsDouble();
    else
      instruction.constantI = type.isInteger(1) ? cast<BoolAttr>(constant.getValue()).getValue()
                                                : cast<IntegerAttr>(constant.getValue()).getInt();
    opcode = isFloat(type) ? Opcode::ConstantF : Opcode::ConstantI;
  } else if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    opcode = opcodeOf(compare.getPredicate());
  } else if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    opcode = opcodeOf(compare.getPredicate());
  } else if (isa<arith::SelectOp>(op)) {
    opcode = isFloat(type) ? Opcode::SelectF : Opcode::SelectI;
  } else if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    registers_[op.getResult(0)] = appendRounding(code_, instruction.operands[0], type);
    return success();
  } else {
    opcode = opcodeOf(&op);
  }
  if (!opcode)
    return op.emitError("the reference interpreter does not know the scalar op '") << op.getName() << "'";
  instruction.opcode = *opcode;
  uint16_t result = append(instruction, type);
  registers_[op.getResult(0)] = appendRounding(code_, result, type);
  return success();
}

FailureOr<Bytecode> Translator::translate(Operation *op, TypeRange argumentTypes, ArrayRef<bool> scalars,
                                          Build build) {
  Block block;
  OpBuilder builder(op->getContext()); // the block is in no region
  builder.setInsertionPointToEnd(&block);
  for (Type type : argumentTypes)
    block.addArgument(type, op->getLoc());
  SmallVector<Value> arguments(block.getArguments()), results;
  Value index = block.addArgument(builder.getI64Type(), op->getLoc());
  build(builder, arguments, index, results);

  for (auto [i, argument] : llvm::enumerate(arguments)) {
    code_.addInput(scalars[i]);
    Instruction load{.opcode = isFloat(argument.getType()) ? Opcode::LoadF : Opcode::LoadI};
    load.input = i;
    registers_[argument] = append(load, argument.getType());
  }
  if (!index.use_empty())
    registers_[index] = append({.opcode = Opcode::LoadIndex}, index.getType());
  for (Operation &scalar : block)
    if (failed(translateOne(scalar)))
      return failure();
  for (Value result : results)
    code_.addOutput(registers_.lookup(result), isFloat(result.getType()));
  return std::move(code_);
}
} // namespace

uint16_t appendRounding(Bytecode &code, uint16_t from, Type elementType) {
  Instruction round{};
  if (elementType.isF32())
    round.opcode = Opcode::RoundF32;
  else if (elementType.isBF16())
    round.opcode = Opcode::RoundBF16;
  else if (elementType.isF16())
    round.opcode = Opcode::RoundF16;
  else
    return from;
  round.operands[0] = round.operands[1] = round.operands[2] = from;
  round.result = code.addRegister();
  code.append(round);
  return round.result;
}

FailureOr<Bytecode> translateElementwise(Operation *op) {
  SmallVector<Type> types;
  SmallVector<bool> scalars;
  for (Value operand : op->getOperands()) {
    types.push_back(tape::computeType(tape::elementOf(operand)));
    scalars.push_back(tape::rankOf(operand) == 0);
  }
  auto build = [&](OpBuilder &builder, ValueRange arguments, Value index, SmallVectorImpl<Value> &results) {
    tape::buildElement(cast<tape::ScalarBodyOpInterface>(op), builder, op->getLoc(), arguments, index, results);
  };
  return Translator().translate(op, types, scalars, build);
}

FailureOr<Bytecode> translateCombiner(Operation *op) {
  Type type = tape::elementOf(op->getOperand(0));
  if (isFloat(type))
    type = Float64Type::get(op->getContext());
  auto build = [&](OpBuilder &builder, ValueRange arguments, Value index, SmallVectorImpl<Value> &results) {
    cast<tape::ScalarBodyOpInterface>(op).buildScalarBody(builder, op->getLoc(), arguments, index, results);
  };
  return Translator().translate(op, {type, type}, {false, false}, build);
}

} // namespace tapeout::codegen::reference
