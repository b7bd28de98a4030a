#include "tools/driver/Weights.h"

#include "frontend/WeightsFile.h"
#include "runtime/base/Safetensors.h"

#include <fmt/format.h>

#include <unistd.h>

namespace tapeout::driver {

TemporaryWeights::~TemporaryWeights() {
  if (!path_.empty())
    ::unlink(path_.c_str());
}

Status TemporaryWeights::collect(const frontend::Graph &graph, const std::string &modelFile, const std::string &output) {
  if (graph.weightsFile.empty())
    return Status::ok();
  Result<frontend::WeightsFile> weights = frontend::openWeights(graph, modelFile);
  if (!weights.isOk())
    return weights.status();
  std::vector<TensorDeclaration> declarations;
  std::vector<const TensorEntry *> entries;
  for (const frontend::Parameter &parameter : graph.parameters)
    if (parameter.initializer.kind == frontend::Initializer::Kind::External) {
      entries.push_back(weights->tensors.find(parameter.initializer.tensor)); // openWeights has checked that it is there
      declarations.push_back({parameter.name, entries.back()->type, entries.back()->shape});
    }
  std::string path = fmt::format("{}.tapeout-tmp-{}", output, ::getpid());
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, declarations);
  if (!writer.isOk())
    return writer.status();
  for (const TensorEntry *entry : entries) {
    auto bytes = weights->tensors.data(*entry);
    TAPEOUT_RETURN_IF_ERROR(writer->write(bytes.data(), bytes.size()));
  }
  TAPEOUT_RETURN_IF_ERROR(writer->commit());
  path_ = path;
  return Status::ok();
}

} // namespace tapeout::driver
