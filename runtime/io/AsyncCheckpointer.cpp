#include "runtime/io/Checkpoint.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <thread>

namespace tapeout::rt {

struct AsyncCheckpointer::State {
  std::string directory;
  int keep;

  std::vector<uint8_t> copy;   ///< of all tensors, kept from save to save
  CheckpointContents contents; ///< its tensors point into `copy`
  std::thread thread;          ///< one per save

  mutable std::mutex mutex;
  Status lastStatus; ///< under the mutex

  /// Copies `source`; the thread must have ended.
  Status take(const CheckpointContents &source) {
    size_t bytes = 0;
    for (const CheckpointTensor &tensor : source.tensors)
      bytes += tensor.bytes.size();
    try {
      copy.resize(bytes);
    } catch (const std::bad_alloc &) {
      return Status::error(ExitCode::Failed, "there is no memory for a copy of the training state to save; free "
                                             "memory or use a larger machine");
    }
    contents = source;
    size_t offset = 0;
    for (CheckpointTensor &tensor : contents.tensors) {
      std::copy(tensor.bytes.begin(), tensor.bytes.end(), copy.begin() + static_cast<ptrdiff_t>(offset));
      tensor.bytes = std::span(copy).subspan(offset, tensor.bytes.size());
      offset += tensor.bytes.size();
    }
    return Status::ok();
  }

  void join() {
    if (thread.joinable())
      thread.join();
  }

  void setStatus(Status status) {
    std::lock_guard lock(mutex);
    lastStatus = std::move(status);
  }
};

AsyncCheckpointer::AsyncCheckpointer(std::string directory, int keep) : state_(std::make_unique<State>()) {
  state_->directory = std::move(directory);
  state_->keep = keep;
}

AsyncCheckpointer::~AsyncCheckpointer() { state_->join(); }

Status AsyncCheckpointer::save(const CheckpointContents &contents) {
  Status previous = wait();
  state_->setStatus(Status::ok());
  TAPEOUT_RETURN_IF_ERROR(std::move(previous));
  TAPEOUT_RETURN_IF_ERROR(state_->take(contents));
  state_->thread = std::thread(
      [state = state_.get()] { state->setStatus(saveCheckpoint(state->directory, state->contents, state->keep)); });
  return Status::ok();
}

Status AsyncCheckpointer::wait() {
  state_->join();
  return lastStatus();
}

Status AsyncCheckpointer::lastStatus() const {
  std::lock_guard lock(state_->mutex);
  return state_->lastStatus;
}

} // namespace tapeout::rt
