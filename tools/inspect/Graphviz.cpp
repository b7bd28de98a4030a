#include "tools/inspect/Graphviz.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tapeout::inspect {

namespace {

class Descriptor {
public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0)
      ::close(number_);
    number_ = -1;
  }
  int get() const { return number_; }

private:
  int number_;
};

/// The text as a file in memory: the child reads it at its own pace, so that nobody waits for anybody.
int memoryFile(const std::string &text) {
  int file = memfd_create("dot", MFD_CLOEXEC);
  size_t done = 0;
  while (file >= 0 && done < text.size()) {
    ssize_t written = pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      ::close(file);
      return -1;
    }
    done += static_cast<size_t>(written);
  }
  return file;
}

/// Starts the program with these descriptors as stdin and stdout; stderr goes nowhere. 0 or an errno value.
int spawn(const std::string &program, int input, int output, pid_t &child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program, format = "-Tsvg";
  char *arguments[] = {name.data(), format.data(), nullptr};
  int error = posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Reads until the other end closes; false once `deadline` has passed or on an error.
bool readAll(int descriptor, std::chrono::steady_clock::time_point deadline, std::string &text) {
  char buffer[1 << 16];
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0)
      return false;
    pollfd waiting = {descriptor, POLLIN, 0};
    int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR)
      return false;
    if (ready <= 0)
      continue;
    ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count == 0)
      return true;
    if (count < 0 && errno != EINTR)
      return false;
    if (count > 0)
      text.append(buffer, static_cast<size_t>(count));
  }
}

} // namespace

Result<std::string> renderSvg(const std::string &dot, std::chrono::milliseconds limit, const std::string &program) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  Descriptor input(memoryFile(dot));
  int ends[2];
  if (input.get() < 0 || pipe2(ends, O_CLOEXEC) != 0)
    return Status::error(ExitCode::Failed,
                         fmt::format("cannot talk to Graphviz: {}; use --format dot", std::strerror(errno)));
  Descriptor output(ends[0]), childOutput(ends[1]);
  pid_t child = 0;
  if (int error = spawn(program, input.get(), childOutput.get(), child))
    return Status::error(
        ExitCode::Unavailable,
        fmt::format("cannot start Graphviz ({}: {}), which draws SVG; install the package graphviz or use --format dot",
                    program, std::strerror(error)));
  childOutput.close();
  std::string svg;
  bool complete = readAll(output.get(), deadline, svg);
  if (!complete)
    kill(child, SIGKILL);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (!complete)
    return Status::error(ExitCode::Failed,
                         fmt::format("Graphviz did not finish within {} s; use --format dot and draw it elsewhere",
                                     std::chrono::duration<double>(limit).count()));
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0 || svg.find("</svg>") == std::string::npos)
    return Status::error(ExitCode::Failed, "Graphviz failed on this graph; use --format dot and draw it elsewhere");
  return svg;
}

} // namespace tapeout::inspect
