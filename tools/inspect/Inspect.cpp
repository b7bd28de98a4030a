#include "tools/inspect/Inspect.h"

#include "tools/inspect/DotWriter.h"
#include "tools/inspect/GraphModel.h"
#include "tools/inspect/Graphviz.h"
#include "tools/inspect/Simplify.h"

#include "llvm/Support/raw_ostream.h"

namespace tapeout::inspect {

Result<std::string> inspect(mlir::ModuleOp module, Format format, const std::string &function,
                            const std::string &caption) {
  if (format == Format::Text) {
    std::string text;
    llvm::raw_string_ostream(text) << module << "\n";
    return text;
  }
  Result<Graph> graph = buildGraph(module, function);
  if (!graph.isOk())
    return graph.status();
  if (!caption.empty())
    graph->title = caption + " " + graph->title;
  simplify(*graph);
  std::string dot = writeDot(*graph);
  if (format == Format::Dot)
    return dot;
  return renderSvg(dot);
}

} // namespace tapeout::inspect
