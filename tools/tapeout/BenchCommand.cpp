// tapeout bench: a training step before and after fusion, or two executables, side by side.
#include "tools/bench/Arguments.h"
#include "tools/tapeout/Commands.h"
#include "tools/tapeout/CompileArguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace tapeout::cli {

namespace {

struct BenchArguments {
  CompileArguments compile;
  bench::Arguments bench;
  std::string other; ///< a second executable
  std::vector<const CLI::Option *> compileOptions; ///< make no sense without a model file
};

/// A folder of its own that disappears with the object.
class ScratchFolder {
public:
  ScratchFolder() = default;
  ScratchFolder(const ScratchFolder &) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty())
      std::filesystem::remove_all(path_, ignored);
  }
  Status create() {
    std::error_code error;
    std::string pattern = (std::filesystem::temp_directory_path(error) / "tapeout-bench-XXXXXX").string();
    if (error || !::mkdtemp(pattern.data()))
      return Status::error(ExitCode::CannotCreate, fmt::format("cannot make the folder {}: {}", pattern, std::strerror(errno)));
    path_ = pattern;
    return Status::ok();
  }
  std::string file(const char *name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

bool isExecutable(const std::string &path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, "\x7f" "ELF", sizeof magic) == 0;
}

Status benchExecutables(const BenchArguments &arguments) {
  for (const CLI::Option *option : arguments.compileOptions)
    if (option->count() > 0)
      return Status::error(ExitCode::Usage, fmt::format("{} belongs to a compile, but {} is an executable; give a model file or "
                                                        "leave the option out", option->get_name(), arguments.compile.model));
  std::vector<std::string> paths = {arguments.compile.model};
  if (!arguments.other.empty())
    paths.push_back(arguments.other);
  return bench::compare(bench::subjectsOf(paths), arguments.bench);
}

Status benchFusion(const BenchArguments &arguments) {
  if (arguments.compile.noFusion)
    return Status::error(ExitCode::Usage, "--no-fusion: bench compiles the model with and without fusion; leave the option out");
  TAPEOUT_RETURN_IF_ERROR(arguments.compile.checkOutput(arguments.bench.json));
  TAPEOUT_RETURN_IF_ERROR(arguments.compile.checkOutput(arguments.bench.plot));
  ScratchFolder folder;
  TAPEOUT_RETURN_IF_ERROR(folder.create());
  std::vector<bench::Subject> subjects = {{"fusion off", folder.file("unfused")}, {"fusion on", folder.file("fused")}};
  for (const bench::Subject &subject : subjects) {
    CompileArguments compile = arguments.compile;
    compile.noFusion = &subject == &subjects.front();
    if (!compile.saveIr.empty())
      compile.saveIr += compile.noFusion ? "/fusion-off" : "/fusion-on";
    if (Result<CompileSummary> summary = compileTo(compile, subject.path); !summary.isOk())
      return summary.status();
  }
  return bench::compare(subjects, arguments.bench);
}

} // namespace

Action addBenchCommand(CLI::App &app) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App *command = app.add_subcommand("bench", "Measure a training step before and after fusion, or two executables");
  arguments->compile.addTo(*command);
  CLI::Option *model = command->get_option("model"), *threads = command->get_option("--threads");
  for (const CLI::Option *option : command->get_options())
    if (option != model && option != threads && option != command->get_help_ptr())
      arguments->compileOptions.push_back(option);
  model->description("Model file (.tape), or a training executable");
  threads->description("Threads of the compile and of each executable (default: one per processor)");
  command->add_option("other", arguments->other, "Another executable to compare the first one with");
  arguments->bench.addTo(*command);
  return [arguments] {
    arguments->bench.measure.threads = static_cast<int>(arguments->compile.threads);
    bool executables = !arguments->other.empty() || isExecutable(arguments->compile.model);
    return executables ? benchExecutables(*arguments) : benchFusion(*arguments);
  };
}

} // namespace tapeout::cli
