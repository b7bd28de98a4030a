// Scalars for TensorBoard: a TFRecord file of Event protocol buffers, encoded by hand
// (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto; only the fields below).
//
//   Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//           SessionLog session_log = 7 }
//   Summary { repeated Value value = 1 }   Value { string tag = 1; float simple_value = 2 }
//   SessionLog { SessionStatus status = 1 (START = 1) }
//   record: uint64 length, uint32 masked CRC of the length, the event, uint32 masked CRC of the event
#pragma once

#include "runtime/io/AppendFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tapeout::rt {

struct Scalar {
  std::string_view tag;
  double value; ///< stored as float
};

/// Opens a new file in `directory`, whose name TensorBoard recognises. Values that older files there have for
/// `firstStep` and later are forgotten by TensorBoard.
class EventFile {
public:
  static Result<EventFile> create(const std::string &directory, uint64_t firstStep);
  /// `wallTime`: seconds since 1970.
  Status write(uint64_t step, double wallTime, std::span<const Scalar> scalars);

private:
  explicit EventFile(AppendFile file) : file_(std::move(file)) {}
  Status writeRecord(std::string_view event);

  AppendFile file_;
};

} // namespace tapeout::rt
