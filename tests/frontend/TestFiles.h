// Helpers for tests that write files.
#pragma once

#include "frontend/Graph.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tapeout::frontend {

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "frontend-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

inline std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// relu(x) + x scaled, with every kind of attribute: value 0 is x, 1 and 2 are parameters, 3..5 results.
inline Graph smallGraph() {
  Graph graph;
  graph.name = "small";
  graph.task = Task::Regression;
  graph.inputs = {{"x", {ElementType::F32, {kBatch, 4}}}};
  graph.parameters = {{"a.weight", {ElementType::F32, {4}}, {Initializer::Kind::Normal, 0, 0.5, ""}},
                      {"b.weight", {ElementType::BF16, {2, 2}}, {Initializer::Kind::Ones, 0, 0, ""}}};
  graph.nodes = {{"relu", "a", {0}, 1, {}},
                 {"split",
                  "b",
                  {3, 1},
                  2,
                  {{"dimension", int64_t{1}},
                   {"epsilon", 1e-5},
                   {"causal", true},
                   {"approximate", std::string("tanh")},
                   {"shape", std::vector<int64_t>{kBatch, 2, 3}}}}};
  graph.output = 5;
  return graph;
}

} // namespace tapeout::frontend
