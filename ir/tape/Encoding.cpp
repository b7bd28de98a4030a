#include "ir/tape/Encoding.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#define GET_ATTRDEF_CLASSES
#include "ir/tape/Encoding.cpp.inc"

using namespace mlir;

namespace tapeout::tape {

void TapeDialect::registerAttributes() { addAttributes<EncodingAttr>(); }

namespace {

ParseResult parsePlacement(AsmParser &parser, AxisPlacement &placement) {
  StringRef kind, combiner;
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseKeyword(&kind))
    return failure();
  if (kind == "replicate")
    return success();
  if (kind == "shard") {
    placement.kind = AxisPlacement::Kind::Shard;
    return failure(parser.parseLParen() || parser.parseInteger(placement.dimension) || parser.parseRParen());
  }
  if (kind != "partial" || parser.parseLParen() || parser.parseKeyword(&combiner) || parser.parseRParen() ||
      (combiner != "sum" && combiner != "max"))
    return parser.emitError(where, "expected replicate, shard(dimension), partial(sum) or partial(max)");
  placement.kind = combiner == "sum" ? AxisPlacement::Kind::PartialSum : AxisPlacement::Kind::PartialMax;
  return success();
}

void printPlacement(llvm::raw_ostream &out, const AxisPlacement &placement) {
  switch (placement.kind) {
  case AxisPlacement::Kind::Replicate:
    out << "replicate";
    return;
  case AxisPlacement::Kind::Shard:
    out << "shard(" << placement.dimension << ")";
    return;
  case AxisPlacement::Kind::PartialSum:
    out << "partial(sum)";
    return;
  case AxisPlacement::Kind::PartialMax:
    out << "partial(max)";
    return;
  }
}

} // namespace

mlir::Attribute EncodingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisPlacement> placement;
  SmallVector<int64_t> layout;
  auto onePlacement = [&] { return parsePlacement(parser, placement.emplace_back()); };
  auto oneDimension = [&] { return ParseResult(parser.parseInteger(layout.emplace_back())); };
  if (parser.parseLess() || parser.parseKeyword("placement") || parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, onePlacement) || parser.parseComma() ||
      parser.parseKeyword("layout") || parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, oneDimension) || parser.parseGreater())
    return {};
  return EncodingAttr::get(parser.getContext(), placement, layout);
}

void EncodingAttr::print(AsmPrinter &printer) const {
  llvm::raw_ostream &out = printer.getStream();
  out << "<placement = [";
  llvm::interleaveComma(getPlacement(), out, [&](const AxisPlacement &placement) { printPlacement(out, placement); });
  out << "], layout = [";
  llvm::interleaveComma(getLayout(), out);
  out << "]>";
}

LogicalResult EncodingAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, function_ref<InFlightDiagnostic()> emitError) const {
  SmallVector<bool> sharded(shape.size(), false), placed(shape.size(), false);
  for (const AxisPlacement &placement : getPlacement()) {
    if (placement.kind != AxisPlacement::Kind::Shard)
      continue;
    if (placement.dimension < 0 || placement.dimension >= static_cast<int64_t>(shape.size()))
      return emitError() << "cannot shard dimension " << placement.dimension << " of a tensor of rank " << shape.size();
    if (sharded[placement.dimension])
      return emitError() << "dimension " << placement.dimension << " is sharded over two mesh axes";
    sharded[placement.dimension] = true;
  }
  if (!getLayout().empty() && getLayout().size() != shape.size())
    return emitError() << "a layout names every dimension once";
  for (int64_t dimension : getLayout()) {
    if (dimension < 0 || dimension >= static_cast<int64_t>(shape.size()) || placed[dimension])
      return emitError() << "a layout names every dimension once";
    placed[dimension] = true;
  }
  return success();
}

} // namespace tapeout::tape
