// Errors as values, for the runtime and for the readers of files.
//
// A Status is either ok or carries an exit code and one sentence: what is wrong (with the layer or file name), why, what
// to do. No function below main exits or throws across a library boundary.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tapeout {

/// Process exit codes, shared by the compiler and by every training executable (sysexits.h where it has one).
enum class ExitCode : int {
  Ok = 0,
  Failed = 1,
  Usage = 2,
  NonFiniteLoss = 3,
  BadData = 65,
  MissingInput = 66,
  Unavailable = 69,
  CannotCreate = 73,
  WriteFailed = 74,
  StoppedBySignal = 75,
  BadConfig = 78,
};

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status ok() { return Status(); }
  static Status error(ExitCode code, std::string message) {
    assert(code != ExitCode::Ok);
    Status status;
    status.code_ = code;
    status.message_ = std::move(message);
    return status;
  }

  bool isOk() const { return code_ == ExitCode::Ok; }
  explicit operator bool() const = delete; // ask isOk(): `if (status)` reads both ways
  ExitCode code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  ExitCode code_ = ExitCode::Ok;
  std::string message_;
};

/// A value or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.isOk()); }

  bool isOk() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

#define TAPEOUT_RETURN_IF_ERROR(expression)                                                                            \
  do {                                                                                                                 \
    ::tapeout::Status status_ = (expression);                                                                          \
    if (!status_.isOk())                                                                                               \
      return status_;                                                                                                  \
  } while (false)

} // namespace tapeout
