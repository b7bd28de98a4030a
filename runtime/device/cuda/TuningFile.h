// Which library kernel each product takes, kept beside the executable, so that later runs give the same bits.
//
//   {"format": 1, "plan_hash": "...", "device": "...", "driver": 13000, "library": 130100,
//    "products": {"<key>": "<algorithm: 128 hexadecimal digits>", "<key>": "separate <algorithm>", ...}}
//
// separate: the product's bias is added by a kernel of its own.
//
// The file is hostile input: what it names is used only when the library offers the same algorithm for the same product.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cuda/CublasLt.h"

#include <map>
#include <string>

namespace tapeout::rt {

/// The choices hold for nothing else.
struct TuningIdentity {
  std::string planHash, device;
  int driverVersion = 0;
  uint64_t libraryVersion = 0;
};

struct TuningChoice {
  CublasAlgorithm algorithm;
  bool separate = false;
};
/// Keys of CublasProduct to choices.
using TuningChoices = std::map<std::string, TuningChoice>;

bool operator==(const TuningChoice &a, const TuningChoice &b);

/// The choices in the file; empty when there is no file, when it is for something else, and when it is damaged.
TuningChoices readTuningFile(const std::string &path, const TuningIdentity &identity);
/// Errors: those of AtomicFile.h.
Status writeTuningFile(const std::string &path, const TuningIdentity &identity, const TuningChoices &choices);

} // namespace tapeout::rt
