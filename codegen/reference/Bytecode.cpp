#include "codegen/reference/Bytecode.h"

#include "runtime/base/BFloat16.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <memory>

namespace tapeout::codegen::reference {

namespace {
union Lanes {
  double f[kLanes];
  int64_t i[kLanes];
};

struct Block {
  std::span<const double *const> inputs;
  const std::vector<bool> &scalarInputs;
  int64_t position;   // of the block's first element in inputs and outputs
  int64_t firstIndex; // its row-major index
  int64_t count;
};

int64_t wrap(int64_t value, unsigned bits) {
  if (bits == 1)
    return value & 1;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}
uint64_t zeroExtended(int64_t value, unsigned bits) {
  return static_cast<uint64_t>(value) << (64 - bits) >> (64 - bits);
}

// IEEE 754-2019 maximum and minimum: NaN wins, -0 is below +0.
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a > b || (a == b && std::signbit(b)) ? a : b;
}

// Towards zero; what an integer cannot hold becomes the nearest it can, NaN becomes 0.
int64_t toInteger(double value, unsigned bits) {
  double limit = std::ldexp(1.0, bits - 1);
  if (std::isnan(value))
    return 0;
  if (value >= limit)
    return static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return value < -limit ? wrap(int64_t(uint64_t{1} << (bits - 1)), bits) : static_cast<int64_t>(value);
}

void execute(const Instruction &in, Lanes *registers, const Block &block) {
  Lanes &r = registers[in.result];
  const Lanes &a = registers[in.operands[0]], &b = registers[in.operands[1]], &c = registers[in.operands[2]];
  int64_t count = block.count;
  auto each = [count](auto f) {
    for (int64_t k = 0; k < count; ++k)
      f(k);
  };
  auto unaryF = [&](auto f) { each([&](int64_t k) { r.f[k] = f(a.f[k]); }); };
  auto binaryF = [&](auto f) { each([&](int64_t k) { r.f[k] = f(a.f[k], b.f[k]); }); };
  auto compareF = [&](auto f) { each([&](int64_t k) { r.i[k] = f(a.f[k], b.f[k]); }); };
  auto compareI = [&](auto f) { each([&](int64_t k) { r.i[k] = f(a.i[k], b.i[k]); }); };
  auto binaryI = [&](auto f) { each([&](int64_t k) { r.i[k] = wrap(f(a.i[k], b.i[k]), in.bits); }); };
  // Sums and products wrap: computed as unsigned numbers, which have the same bits.
  auto binaryU = [&](auto f) {
    each([&](int64_t k) {
      r.i[k] = wrap(static_cast<int64_t>(f(zeroExtended(a.i[k], in.operandBits), zeroExtended(b.i[k], in.operandBits))),
                    in.bits);
    });
  };
  auto load = [&](auto *out) {
    const double *source = block.inputs[in.input];
    bool scalar = block.scalarInputs[in.input];
    for (int64_t k = 0; k < count; ++k)
      out[k] = source[scalar ? 0 : block.position + k];
  };
  using D = double;
  using I = int64_t;
  using U = uint64_t;

  switch (in.opcode) {
  case Opcode::LoadF: return load(r.f);
  case Opcode::LoadI: return load(r.i);
  case Opcode::LoadIndex: return each([&](int64_t k) { r.i[k] = block.firstIndex + k; });
  case Opcode::ConstantF: return each([&](int64_t k) { r.f[k] = in.constantF; });
  case Opcode::ConstantI: return each([&](int64_t k) { r.i[k] = in.constantI; });

  case Opcode::AddF: return binaryF([](D x, D y) { return x + y; });
  case Opcode::SubF: return binaryF([](D x, D y) { return x - y; });
  case Opcode::MulF: return binaryF([](D x, D y) { return x * y; });
  case Opcode::DivF: return binaryF([](D x, D y) { return x / y; });
  case Opcode::MaxF: return binaryF(maximum);
  case Opcode::MinF: return binaryF([](D x, D y) { return -maximum(-x, -y); });
  case Opcode::PowF: return binaryF([](D x, D y) { return std::pow(x, y); });
  case Opcode::FmaF: return each([&](int64_t k) { r.f[k] = std::fma(a.f[k], b.f[k], c.f[k]); });
  case Opcode::NegF: return unaryF([](D x) { return -x; });
  case Opcode::ExpF: return unaryF([](D x) { return std::exp(x); });
  case Opcode::LogF: return unaryF([](D x) { return std::log(x); });
  case Opcode::SqrtF: return unaryF([](D x) { return std::sqrt(x); });
  case Opcode::TanhF: return unaryF([](D x) { return std::tanh(x); });
  case Opcode::ErfF: return unaryF([](D x) { return std::erf(x); });
  case Opcode::CosF: return unaryF([](D x) { return std::cos(x); });
  case Opcode::SinF: return unaryF([](D x) { return std::sin(x); });
  case Opcode::RoundF32: return unaryF([](D x) { return D(static_cast<float>(x)); });
  case Opcode::RoundBF16: return unaryF([](D x) { return D(bfloat16ToFloat(doubleToBfloat16(x))); });
  case Opcode::RoundF16: return unaryF([](D x) { return D(halfToFloat(doubleToHalf(x))); });

  case Opcode::EqF: return compareF([](D x, D y) { return x == y; });
  case Opcode::NeF: return compareF([](D x, D y) { return x != y; });
  case Opcode::LtF: return compareF([](D x, D y) { return x < y; });
  case Opcode::LeF: return compareF([](D x, D y) { return x <= y; });
  case Opcode::GtF: return compareF([](D x, D y) { return x > y; });
  case Opcode::GeF: return compareF([](D x, D y) { return x >= y; });
  case Opcode::EqI: return compareI([](I x, I y) { return x == y; });
  case Opcode::NeI: return compareI([](I x, I y) { return x != y; });
  case Opcode::LtI: return compareI([](I x, I y) { return x < y; });
  case Opcode::LeI: return compareI([](I x, I y) { return x <= y; });
  case Opcode::GtI: return compareI([](I x, I y) { return x > y; });
  case Opcode::GeI: return compareI([](I x, I y) { return x >= y; });
  case Opcode::SelectF: return each([&](int64_t k) { r.f[k] = a.i[k] ? b.f[k] : c.f[k]; });
  case Opcode::SelectI: return each([&](int64_t k) { r.i[k] = a.i[k] ? b.i[k] : c.i[k]; });

  case Opcode::AddI: return binaryU([](U x, U y) { return x + y; });
  case Opcode::SubI: return binaryU([](U x, U y) { return x - y; });
  case Opcode::MulI: return binaryU([](U x, U y) { return x * y; });
  // Undefined in the IR where the divisor is 0: here the quotient and the remainder are 0.
  case Opcode::DivI: return binaryI([](I x, I y) { return y == 0 ? 0 : y == -1 ? I(-U(x)) : x / y; });
  case Opcode::DivU: return binaryU([](U x, U y) { return y == 0 ? 0 : x / y; });
  case Opcode::RemU: return binaryU([](U x, U y) { return y == 0 ? 0 : x % y; });
  case Opcode::MaxI: return binaryI([](I x, I y) { return std::max(x, y); });
  case Opcode::MinI: return binaryI([](I x, I y) { return std::min(x, y); });
  case Opcode::AndI: return binaryI([](I x, I y) { return x & y; });
  case Opcode::XorI: return binaryI([](I x, I y) { return x ^ y; });
  case Opcode::ShiftRightU: return binaryU([](U x, U y) { return y < 64 ? x >> y : 0; });

  case Opcode::ExtendI: return each([&](int64_t k) { r.i[k] = in.operandBits == 1 ? -a.i[k] : a.i[k]; });
  case Opcode::ExtendU: return each([&](int64_t k) { r.i[k] = static_cast<I>(zeroExtended(a.i[k], in.operandBits)); });
  case Opcode::Truncate: return each([&](int64_t k) { r.i[k] = wrap(a.i[k], in.bits); });
  case Opcode::FloatToI: return each([&](int64_t k) { r.i[k] = toInteger(a.f[k], in.bits); });
  case Opcode::IToFloat: return each([&](int64_t k) { r.f[k] = static_cast<D>(a.i[k]); });
  case Opcode::UToFloat: return each([&](int64_t k) { r.f[k] = static_cast<D>(zeroExtended(a.i[k], in.operandBits)); });
  }
}
} // namespace

uint16_t Bytecode::addRegister() {
  assert(uniform_.size() < UINT16_MAX && "a scalar body of 65,535 values");
  uniform_.push_back(false);
  return static_cast<uint16_t>(uniform_.size() - 1);
}

bool Bytecode::isUniform(const Instruction &in) const {
  if (in.opcode == Opcode::ConstantF || in.opcode == Opcode::ConstantI)
    return true;
  if (in.opcode == Opcode::LoadF || in.opcode == Opcode::LoadI)
    return scalarInputs_[in.input];
  return in.opcode != Opcode::LoadIndex && uniform_[in.operands[0]] && uniform_[in.operands[1]] &&
         uniform_[in.operands[2]];
}

void Bytecode::append(const Instruction &instruction) {
  bool uniform = isUniform(instruction);
  uniform_[instruction.result] = uniform;
  (uniform ? prologue_ : body_).push_back(instruction);
}

void Bytecode::run(std::span<const double *const> inputs, std::span<double *const> outputs, int64_t count,
                   int64_t firstIndex) const {
  auto registers = std::make_unique_for_overwrite<Lanes[]>(registerCount());
  Block block{inputs, scalarInputs_, 0, firstIndex, std::min(count, kLanes)};
  for (const Instruction &instruction : prologue_)
    execute(instruction, registers.get(), block);
  for (; block.position < count; block.position += kLanes, block.firstIndex += kLanes) {
    block.count = std::min(count - block.position, kLanes);
    for (const Instruction &instruction : body_)
      execute(instruction, registers.get(), block);
    for (size_t n = 0; n < outputs_.size(); ++n) {
      const Lanes &lanes = registers[outputs_[n].reg];
      double *out = outputs[n] + block.position;
      for (int64_t k = 0; k < block.count; ++k)
        out[k] = outputs_[n].isFloat ? lanes.f[k] : static_cast<double>(lanes.i[k]);
    }
  }
}

} // namespace tapeout::codegen::reference
