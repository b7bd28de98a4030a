// CUPTI of the fake: what ran while kinds were enabled comes at the next flush, in records of CUDA 13.0's size.
#include "tests/runtime/cuda/FakeCuda.h"

#include <cstring>
#include <set>

using namespace tapeout::rt;
using namespace tapeout::rt::test;

namespace {

constexpr size_t kKernelBytes = 216, kCopyBytes = 96, kFillBytes = 88;

struct State {
  Cupti::GiveBuffer *give;
  Cupti::TakeBuffer *take;
  std::set<CuptiKind> enabled;
};
State state;

CuptiKind kindOf(const DeviceRecord &record) {
  return record.kind == DeviceRecord::Kind::Kernel ? CuptiKind::Kernel
         : record.kind == DeviceRecord::Kind::Fill ? CuptiKind::Fill
                                                   : CuptiKind::Copy;
}
size_t bytesOf(CuptiKind kind) {
  return kind == CuptiKind::Kernel ? kKernelBytes : kind == CuptiKind::Fill ? kFillBytes : kCopyBytes;
}

template <typename Record> Record describe(const DeviceRecord &record, uint64_t node) {
  Record result = {};
  result.kind = kindOf(record);
  result.begin = record.begin;
  result.end = record.end;
  result.graphNode = record.inGraph ? node : 0;
  return result;
}

void write(uint8_t *place, const DeviceRecord &record, uint64_t node) {
  if (record.kind == DeviceRecord::Kind::Kernel) {
    static std::set<std::string> names; // they stay
    auto kernel = describe<CuptiKernelRecord>(record, node);
    kernel.name = names.insert(record.name).first->c_str();
    std::memcpy(place, &kernel, sizeof kernel);
  } else if (record.kind == DeviceRecord::Kind::Fill) {
    auto fill = describe<CuptiFillRecord>(record, node);
    std::memcpy(place, &fill, sizeof fill);
  } else {
    auto copy = describe<CuptiCopyRecord>(record, node);
    copy.copyKind = record.kind == DeviceRecord::Kind::CopyToHost ? kCuptiCopyToHost : 8;
    std::memcpy(place, &copy, sizeof copy);
  }
}

int enter(const char *name) {
  ++fakeCuda().calls[name];
  return fakeCuda().failingCall == name ? 999 : 0;
}

} // namespace

extern "C" {

int cuptiGetVersion(uint32_t *version) {
  *version = fakeCuda().cuptiVersion;
  return 0;
}
int cuptiGetResultString(int result, const char **text) {
  *text = result == 999 ? "CUPTI_ERROR_UNKNOWN" : "CUPTI_SUCCESS";
  return 0;
}
int cuptiActivityRegisterCallbacks(Cupti::GiveBuffer *give, Cupti::TakeBuffer *take) {
  state = {give, take, {}};
  return enter("cuptiActivityRegisterCallbacks");
}
int cuptiActivityEnable(CuptiKind kind) {
  if (state.enabled.empty())
    fakeCuda().records.clear(); // what ran before
  state.enabled.insert(kind);
  return enter("cuptiActivityEnable");
}
int cuptiActivityDisable(CuptiKind kind) {
  state.enabled.erase(kind);
  return enter("cuptiActivityDisable");
}
int cuptiActivityFlushAll(uint32_t) {
  if (int error = enter("cuptiActivityFlushAll"))
    return error;
  uint64_t node = 1000; // of executable graphs, unknown to who captured
  std::vector<DeviceRecord> records = std::move(fakeCuda().records);
  fakeCuda().records.clear();
  // Newest first, in buffers of two, to see that no order is relied on.
  while (!records.empty()) {
    uint8_t *buffer = nullptr;
    size_t bytes = 0, most = 0, valid = 0;
    state.give(&buffer, &bytes, &most);
    for (int i = 0; i < 2 && !records.empty(); ++i, records.pop_back()) {
      CuptiKind kind = kindOf(records.back());
      if (kind == CuptiKind::Kernel && fakeCuda().lostKernels > 0 && fakeCuda().lostKernels--)
        continue;
      if (!state.enabled.contains(kind))
        continue;
      std::memset(buffer + valid, 0xee, bytesOf(kind)); // fields that nobody reads
      write(buffer + valid, records.back(), ++node);
      valid += bytesOf(kind);
    }
    state.take(nullptr, 0, buffer, bytes, valid);
  }
  return 0;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t validBytes, CuptiRecord **record) {
  uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) + bytesOf((*record)->kind) : buffer;
  if (next >= buffer + validBytes)
    return 12; // CUPTI_ERROR_MAX_LIMIT_REACHED
  *record = reinterpret_cast<CuptiRecord *>(next);
  return 0;
}

} // extern "C"
