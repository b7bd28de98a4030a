// Child processes of the tests: start, watch, signal, wait. Output goes to a file each for stdout and stderr.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tapeout::e2e {

struct Outcome {
  int code = -1; ///< exit code; 128 + signal when a signal ended it
  std::string out, error;
};

class Process {
public:
  /// Starts words[0] with the other words as its arguments. `outputPrefix` + ".out" and ".err" take its output.
  Process(std::vector<std::string> words, std::string outputPrefix);
  ~Process(); ///< kills what still runs
  Process(const Process &) = delete;
  Process &operator=(const Process &) = delete;

  void send(int signal);
  bool isRunning();
  Outcome wait();

private:
  pid_t child_ = -1;
  int status_ = -1;
  bool ended_ = false;
  std::string outputPrefix_;
};

std::string readFile(const std::string &path);

} // namespace tapeout::e2e
