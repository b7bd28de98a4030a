#include "tests/e2e/Process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace tapeout::e2e {
namespace {

void redirect(const std::string &path, int descriptor) {
  int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, descriptor) < 0)
    ::_exit(126);
}

} // namespace

Process::Process(std::vector<std::string> words, std::string outputPrefix) : outputPrefix_(std::move(outputPrefix)) {
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::string out = outputPrefix_ + ".out", error = outputPrefix_ + ".err";
  child_ = ::fork();
  if (child_ == 0) {
    redirect(out, STDOUT_FILENO);
    redirect(error, STDERR_FILENO);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ended_ = child_ < 0;
}

Process::~Process() {
  send(SIGKILL);
  wait();
}

void Process::send(int signal) {
  if (isRunning())
    ::kill(child_, signal);
}

bool Process::isRunning() {
  if (!ended_)
    ended_ = ::waitpid(child_, &status_, WNOHANG) != 0;
  return !ended_;
}

Outcome Process::wait() {
  if (!ended_)
    ::waitpid(child_, &status_, 0);
  ended_ = true;
  int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  return {code, readFile(outputPrefix_ + ".out"), readFile(outputPrefix_ + ".err")};
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace tapeout::e2e
