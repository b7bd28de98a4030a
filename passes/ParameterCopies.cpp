#include "passes/ParameterCopies.h"

#include "passes/Functions.h"

#include "ir/tape/TapeBuilder.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tapeout {

namespace {

constexpr StringLiteral kPrefix = "copy/"; // before the parameter's name

StringRef parameterName(func::FuncOp func, unsigned copy) {
  return argumentAttr(func, copy, tape::kNameAttr).drop_front(kPrefix.size());
}

NamedResult narrowed(OpBuilder &builder, Value parameter, BlockArgument copy) {
  tape::TapeBuilder t(builder, parameter.getLoc());
  auto target = builder.getNamedAttr(tape::kUpdatesAttr, builder.getI64IntegerAttr(copy.getArgNumber()));
  return {t.convert(parameter, tape::elementOf(copy)), builder.getDictionaryAttr(target)};
}

} // namespace

BlockArgument copyOfParameter(func::FuncOp func, BlockArgument parameter, Type element) {
  std::string name = (kPrefix + argumentAttr(func, parameter.getArgNumber(), tape::kNameAttr)).str();
  for (unsigned i : argumentsWithRole(func, tape::kRoleCopy))
    if (argumentAttr(func, i, tape::kNameAttr) == name)
      return func.getArgument(i);
  return addArgument(func, RankedTensorType::get(tape::shapeOf(parameter), element), tape::kRoleCopy, name);
}

void updateCopies(func::FuncOp step) {
  llvm::StringMap<BlockArgument> copies;
  for (unsigned i : argumentsWithRole(step, tape::kRoleCopy))
    copies[parameterName(step, i)] = step.getArgument(i);
  OpBuilder builder(step.getBody().front().getTerminator());
  PhaseScope phase(builder, "optimizer");
  SmallVector<NamedResult> results = getResults(step);
  for (size_t i = 0, count = results.size(); i < count; ++i)
    if (auto target = results[i].attributes.getAs<IntegerAttr>(tape::kUpdatesAttr))
      if (BlockArgument copy = copies.lookup(argumentAttr(step, target.getInt(), tape::kNameAttr)))
        results.push_back(narrowed(builder, results[i].value, copy));
  setResults(step, results);
}

void buildPrepare(ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto prepare = builder.create<func::FuncOp>(module.getLoc(), "prepare", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(prepare.addEntryBlock());
  auto end = builder.create<func::ReturnOp>(module.getLoc());
  builder.setInsertionPoint(end);
  llvm::StringSet<> known;
  SmallVector<NamedResult> results;
  for (auto func : module.getOps<func::FuncOp>())
    for (unsigned i : argumentsWithRole(func, tape::kRoleCopy)) {
      StringRef name = parameterName(func, i);
      if (!known.insert(name).second)
        continue;
      for (unsigned p : argumentsWithRole(func, tape::kRoleParameter)) {
        if (argumentAttr(func, p, tape::kNameAttr) != name)
          continue;
        unsigned index = prepare.getNumArguments();
        prepare.insertArgument(index, func.getArgumentTypes()[p], func.getArgAttrDict(p), func.getArgument(p).getLoc());
        BlockArgument parameter = prepare.getArgument(index);
        results.push_back(narrowed(builder, parameter, copyOfParameter(prepare, parameter, tape::elementOf(func.getArgument(i)))));
      }
    }
  setResults(prepare, results);
  if (results.empty())
    prepare.erase();
}

} // namespace tapeout
