#include "runtime/io/EventFile.h"

#include "runtime/io/Crc32c.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <unistd.h>

namespace tapeout::rt {

namespace {

template <typename T> void appendRaw(std::string &out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

/// A protocol buffer message under construction. Field numbers are below 16, so that a field's key is one byte.
class Message {
public:
  void addVarint(int field, uint64_t value) {
    addKey(field, 0);
    appendVarint(value);
  }
  void addDouble(int field, double value) {
    addKey(field, 1);
    appendRaw(text_, value);
  }
  void addFloat(int field, float value) {
    addKey(field, 5);
    appendRaw(text_, value);
  }
  void addString(int field, std::string_view value) {
    addKey(field, 2);
    appendVarint(value.size());
    text_ += value;
  }
  const std::string &text() const { return text_; }

private:
  void addKey(int field, int wireType) { text_ += static_cast<char>(field << 3 | wireType); }
  void appendVarint(uint64_t value) {
    for (; value >= 128; value >>= 7)
      text_ += static_cast<char>((value & 127) | 128);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

Message beginEvent(double wallTime, uint64_t step) {
  Message event;
  event.addDouble(1, wallTime);
  if (step != 0) // the default is not written
    event.addVarint(2, step);
  return event;
}

} // namespace

Result<EventFile> EventFile::create(const std::string &directory, uint64_t firstStep) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  char host[256] = "host";
  ::gethostname(host, sizeof(host) - 1);
  auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::string path = fmt::format("{}/events.out.tfevents.{}.{}.{}", directory, microseconds / 1'000'000,
                                 static_cast<const char *>(host), microseconds % 1'000'000);
  Result<AppendFile> opened = AppendFile::open(path, 0);
  if (!opened.isOk())
    return opened.status();
  EventFile file(std::move(*opened));

  double wallTime = static_cast<double>(microseconds) * 1e-6;
  Message version = beginEvent(wallTime, 0);
  version.addString(3, "brain.Event:2");
  Message started;
  started.addVarint(1, 1);
  Message session = beginEvent(wallTime, firstStep);
  session.addString(7, started.text());
  for (const Message *event : {&version, &session})
    TAPEOUT_RETURN_IF_ERROR(file.writeRecord(event->text()));
  return file;
}

Status EventFile::write(uint64_t step, double wallTime, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar &scalar : scalars) {
    Message value;
    value.addString(1, scalar.tag);
    value.addFloat(2, static_cast<float>(scalar.value));
    summary.addString(1, value.text());
  }
  Message event = beginEvent(wallTime, step);
  event.addString(5, summary.text());
  return writeRecord(event.text());
}

Status EventFile::writeRecord(std::string_view event) {
  std::string record;
  appendRaw(record, static_cast<uint64_t>(event.size()));
  appendRaw(record, maskedCrc(crc32c(record)));
  record += event;
  appendRaw(record, maskedCrc(crc32c(event)));
  return file_.append(record);
}

} // namespace tapeout::rt
