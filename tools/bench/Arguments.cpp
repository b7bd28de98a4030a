#include "tools/bench/Arguments.h"

#include "runtime/base/AtomicFile.h"
#include "tools/bench/Report.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace tapeout::bench {

void Arguments::addTo(CLI::App &command) {
  command.add_option("--steps", measure.steps, "Measured steps of each executable (default 100)")
      ->check(CLI::Range(uint64_t(1), uint64_t(1'000'000)));
  command.add_option("--data", measure.data, "Dataset, as for an executable (default: random numbers)");
  command.add_option("--labels", measure.labels, "Labels of a dataset of arrays");
  command.add_option("--json", json, "Write the numbers to this file, or with - to the standard output");
  command.add_option("--plot", plot, "Write bars to this SVG file");
}

Status compare(const std::vector<Subject> &subjects, const Arguments &arguments) {
  for (const std::string &path : {arguments.plot, arguments.json}) // found out now, not after minutes
    if (!path.empty() && path != "-")
      if (Result<AtomicFile> probe = AtomicFile::create(path); !probe.isOk())
        return probe.status();
  Result<Roofs> roofs = measureRoofs(arguments.measure.threads);
  if (!roofs.isOk())
    return roofs.status();
  Result<Report> report = measure(subjects, arguments.measure, *roofs);
  if (!report.isOk())
    return report.status();
  fmt::print("{}", arguments.json == "-" ? jsonOf(*report) : tableOf(*report));
  if (!arguments.json.empty() && arguments.json != "-")
    TAPEOUT_RETURN_IF_ERROR(writeFile(arguments.json, jsonOf(*report)));
  return arguments.plot.empty() ? Status::ok() : writeFile(arguments.plot, plotOf(*report));
}

std::vector<Subject> subjectsOf(const std::vector<std::string> &paths) {
  std::vector<Subject> subjects;
  for (const std::string &path : paths)
    subjects.push_back({std::filesystem::path(path).filename().string(), path});
  return subjects;
}

} // namespace tapeout::bench
