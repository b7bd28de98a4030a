// The scalar body of an op as a flat list of instructions over registers, run on up to 256 elements at a time.
//
// A register holds one value per element: a double, or an integer of 64 bits (i1 as 0 or 1, narrower ones
// sign-extended). Every value of the body has a register of its own, so nothing is ever overwritten.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tapeout::codegen::reference {

inline constexpr int64_t kLanes = 256;

// Suffix F: doubles, I: integers (U: taken as unsigned). Integer results wrap to the bits of their type.
enum class Opcode : uint8_t {
  LoadF, LoadI, LoadIndex, ConstantF, ConstantI,
  AddF, SubF, MulF, DivF, MaxF, MinF, PowF, FmaF,
  NegF, ExpF, LogF, SqrtF, TanhF, ErfF, CosF, SinF,
  RoundF32, RoundBF16, RoundF16,
  EqF, NeF, LtF, LeF, GtF, GeF, EqI, NeI, LtI, LeI, GtI, GeI, SelectF, SelectI,
  AddI, SubI, MulI, DivI, DivU, RemU, MaxI, MinI, AndI, XorI, ShiftRightU,
  ExtendI, ExtendU, Truncate, FloatToI, IToFloat, UToFloat,
};

struct Instruction {
  Opcode opcode;
  uint8_t bits = 64;        // width of the integer result
  uint8_t operandBits = 64; // width of the integer operands
  uint16_t result = 0;
  uint16_t operands[3] = {0, 0, 0}; // where there are fewer, the first again
  uint16_t input = 0;               // LoadF, LoadI: which input
  double constantF = 0;
  int64_t constantI = 0;
};

class Bytecode {
public:
  /// Reserves a register.
  uint16_t addRegister();
  void append(const Instruction &instruction);
  /// Declares the next input; `isScalar`: it has one element, used for all.
  void addInput(bool isScalar) { scalarInputs_.push_back(isScalar); }
  void addOutput(uint16_t reg, bool isFloat) { outputs_.push_back({reg, isFloat}); }
  size_t registerCount() const { return uniform_.size(); }

  /// Computes `count` elements, whose row-major indices begin at `firstIndex`. `inputs` and `outputs` point at their
  /// first elements; an output may be one of the inputs.
  void run(std::span<const double *const> inputs, std::span<double *const> outputs, int64_t count,
           int64_t firstIndex = 0) const;

private:
  struct Output {
    uint16_t reg;
    bool isFloat;
  };
  bool isUniform(const Instruction &instruction) const;

  std::vector<Instruction> prologue_; // the same for every element: run once
  std::vector<Instruction> body_;
  std::vector<bool> uniform_; // per register
  std::vector<bool> scalarInputs_;
  std::vector<Output> outputs_;
};

} // namespace tapeout::codegen::reference
