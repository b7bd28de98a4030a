#include "tools/bench/Child.h"

#include "runtime/base/Json.h"

#include <fmt/format.h>

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char **environ;

namespace tapeout::bench {

constexpr size_t kMaxLine = size_t{64} << 20;

Result<Child> Child::start(const std::string &path, const std::vector<std::string> &options) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return Status::error(ExitCode::Failed, fmt::format("cannot make a connection to {}: {}", path, std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDOUT_FILENO);
  std::vector<std::string> words = {path, "--bench"};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t process = -1;
  int error = ::posix_spawn(&process, path.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(sockets[1]);
  if (error != 0) {
    ::close(sockets[0]);
    return Status::error(ExitCode::MissingInput, fmt::format("{} cannot be started: {}; give a training executable, as "
                                                             "`tapeout compile` writes them", path, std::strerror(error)));
  }
  Child child(path, process, sockets[0]);
  Result<nlohmann::json> description = child.readLine();
  if (!description.isOk())
    return description.status();
  child.description_ = std::move(*description);
  return child;
}

Child::Child(Child &&other) noexcept
    : path_(std::move(other.path_)), process_(other.process_), socket_(other.socket_),
      received_(std::move(other.received_)), description_(std::move(other.description_)) {
  other.process_ = other.socket_ = -1;
}

Child::~Child() {
  if (socket_ >= 0)
    ::close(socket_);
  if (process_ > 0) {
    ::kill(process_, SIGKILL); // it has nothing to save
    ::waitpid(process_, nullptr, 0);
  }
}

Result<nlohmann::json> Child::train(uint64_t steps) {
  std::string line = std::to_string(steps) + "\n";
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return ended();
  Result<nlohmann::json> reply = readLine();
  if (!reply.isOk())
    return reply;
  bool complete = true;
  for (const char *key : {"seconds", "processor_seconds"}) {
    auto values = reply->find(key);
    complete = complete && values != reply->end() && values->is_array() && values->size() == steps;
    for (size_t i = 0; complete && i < steps; ++i)
      complete = (*values)[i].is_number();
  }
  if (!complete)
    return Status::error(ExitCode::BadData, fmt::format("{} does not answer as a training executable does; compile the model "
                                                        "again", path_));
  return reply;
}

Result<nlohmann::json> Child::readLine() {
  size_t end;
  while ((end = received_.find('\n')) == std::string::npos) {
    char buffer[4096];
    ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0 || received_.size() > kMaxLine)
      return ended();
    received_.append(buffer, count);
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  Result<nlohmann::json> value = parseJson(line, path_);
  if (value.isOk() && !value->is_object())
    return Status::error(ExitCode::BadData, fmt::format("{} does not answer as a training executable does; compile the model "
                                                        "again", path_));
  return value;
}

Status Child::ended() {
  ::close(socket_);
  socket_ = -1;
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  if (!WIFEXITED(status))
    return Status::error(ExitCode::Failed, fmt::format("{} was ended by signal {}", path_, WTERMSIG(status)));
  auto code = static_cast<ExitCode>(WEXITSTATUS(status));
  const char *remedy = code == ExitCode::Usage ? "; compile it again, it may be of another version" : "";
  return Status::error(code == ExitCode::Ok ? ExitCode::Failed : code,
                       fmt::format("{} has stopped with exit code {}, for the reason above{}", path_,
                                   WEXITSTATUS(status), remedy));
}

} // namespace tapeout::bench
