// The IR of a module as text or as a picture.
#pragma once

#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tapeout::inspect {

enum class Format { Text, Dot, Svg };

/// Text shows the whole module; DOT and SVG one function or program, simplified (see Simplify.h), @step if the name is
/// empty, under `caption`. Errors: Usage (no such function), Unavailable (SVG without Graphviz), Failed.
Result<std::string> inspect(mlir::ModuleOp module, Format format, const std::string &function = "",
                            const std::string &caption = "");

} // namespace tapeout::inspect
