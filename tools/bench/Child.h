// A training executable as a child process that trains when it is told to (runtime/Bench.h).
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include <sys/types.h>

namespace tapeout::bench {

class Child {
public:
  /// Starts `path` with the options and waits until it says what it is. Errors: MissingInput when it cannot be started,
  /// else its exit code; it has then said the reason on the standard error.
  static Result<Child> start(const std::string &path, const std::vector<std::string> &options);

  Child(Child &&other) noexcept;
  Child &operator=(Child &&) = delete;
  ~Child(); ///< ends the process and waits for it

  /// What the executable is: the first line.
  const nlohmann::json &description() const { return description_; }
  /// Trains `steps` steps and gives the reply, which has so many "seconds" and "processor_seconds".
  Result<nlohmann::json> train(uint64_t steps);

private:
  Child(std::string path, pid_t process, int socket) : path_(std::move(path)), process_(process), socket_(socket) {}
  Result<nlohmann::json> readLine();
  Status ended();

  std::string path_;
  pid_t process_;
  int socket_; ///< its standard input and output
  std::string received_;
  nlohmann::json description_;
};

} // namespace tapeout::bench
