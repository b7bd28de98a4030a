#include "runtime/device/cuda/CuptiRecorder.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <mutex>

namespace tapeout::rt {
namespace {

constexpr size_t kBufferBytes = size_t(4) << 20;
constexpr size_t kBufferAlignment = 64;
constexpr CuptiKind kKinds[] = {CuptiKind::Kernel, CuptiKind::Copy, CuptiKind::Fill};

// CUPTI's callbacks carry no context and come from threads of its own, a last time at the end of the process.
std::mutex mutex;
CuptiRecorder *recorder = nullptr;

} // namespace

CuptiRecorder::CuptiRecorder(const Cupti &cupti) : cupti_(cupti) {
  std::lock_guard lock(mutex);
  assert(!recorder && "one recorder at a time");
  recorder = this;
}

CuptiRecorder::~CuptiRecorder() {
  for (CuptiKind kind : kKinds)
    cupti_.disable(kind);
  std::lock_guard lock(mutex);
  recorder = nullptr;
}

Result<std::unique_ptr<CuptiRecorder>> CuptiRecorder::start(const Cupti &cupti) {
  std::unique_ptr<CuptiRecorder> started(new CuptiRecorder(cupti));
  TAPEOUT_RETURN_IF_ERROR(cupti.check(cupti.registerCallbacks(giveBuffer, takeBuffer), "it takes no buffers"));
  TAPEOUT_RETURN_IF_ERROR(started->resume());
  return started;
}

Status CuptiRecorder::resume() {
  for (CuptiKind kind : kKinds)
    TAPEOUT_RETURN_IF_ERROR(cupti_.check(cupti_.enable(kind), "it does not record"));
  return Status::ok();
}

Status CuptiRecorder::pause() {
  TAPEOUT_RETURN_IF_ERROR(cupti_.check(cupti_.flushAll(kCuptiFlushForced), "it gives no records"));
  for (CuptiKind kind : kKinds)
    TAPEOUT_RETURN_IF_ERROR(cupti_.check(cupti_.disable(kind), "it does not stop"));
  return Status::ok();
}

Result<std::vector<DeviceRecord>> CuptiRecorder::finish() {
  TAPEOUT_RETURN_IF_ERROR(pause());
  std::lock_guard lock(mutex);
  std::stable_sort(records_.begin(), records_.end(),
                   [](const DeviceRecord &a, const DeviceRecord &b) { return a.begin < b.begin; });
  return std::move(records_);
}

void CuptiRecorder::giveBuffer(uint8_t **buffer, size_t *bytes, size_t *mostRecords) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *mostRecords = 0; // as many as there is room for
}

void CuptiRecorder::takeBuffer(CuContext, uint32_t, uint8_t *buffer, size_t, size_t validBytes) {
  std::lock_guard lock(mutex);
  if (recorder)
    recorder->read(buffer, validBytes);
  std::free(buffer);
}

void CuptiRecorder::read(uint8_t *buffer, size_t validBytes) {
  using Kind = DeviceRecord::Kind;
  CuptiRecord *record = nullptr;
  while (validBytes > 0 && cupti_.getNextRecord(buffer, validBytes, &record) == kCuptiSuccess) {
    if (record->kind == CuptiKind::Kernel) {
      const auto &kernel = *reinterpret_cast<const CuptiKernelRecord *>(record);
      records_.push_back({Kind::Kernel, kernel.graphNode != 0, kernel.begin, kernel.end, kernel.name ? kernel.name : ""});
    } else if (record->kind == CuptiKind::Copy) {
      const auto &copy = *reinterpret_cast<const CuptiCopyRecord *>(record);
      Kind kind = copy.copyKind == kCuptiCopyToHost ? Kind::CopyToHost : Kind::OtherCopy;
      records_.push_back({kind, copy.graphNode != 0, copy.begin, copy.end, ""});
    } else if (record->kind == CuptiKind::Fill) {
      const auto &fill = *reinterpret_cast<const CuptiFillRecord *>(record);
      records_.push_back({Kind::Fill, fill.graphNode != 0, fill.begin, fill.end, ""});
    }
  }
}

} // namespace tapeout::rt
