#include "tests/runtime/cuda/FakeCuda.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

namespace tapeout::rt::test {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500, kIllegalAddress = 700;

using Kind = FakeCuda::Kind;

struct Work {
  std::function<void()> run;
  double milliseconds;
  Kind kind;
  std::string kernel;
  bool recorded = true; // an event leaves no record
  bool inGraph = false;
};
struct Event {
  int pending = 0;
  double time = 0;
};
struct Function {
  std::string name;
  void (*run)(void *const *, int64_t, int64_t);
  int arguments;
  bool table, mapped;
};
using Graph = std::vector<Work>;

struct State {
  FakeCuda cuda;
  std::deque<Work> stream;
  std::unique_ptr<Graph> capture;
  std::vector<std::unique_ptr<Function>> functions;
  int broken = 0; // the error of everything that follows
};
State *state = new State;

/// Counts the call and says whether it fails.
int enter(const char *name) {
  ++state->cuda.calls[name];
  if (givesBack(name))
    return 0;
  return state->cuda.failingCall == name ? state->cuda.failure : state->broken;
}

void runOne() {
  Work work = std::move(state->stream.front());
  state->stream.pop_front();
  auto nanoseconds = [] { return static_cast<uint64_t>(1e6 * (1 + state->cuda.now)); }; // 0 means unknown
  uint64_t begin = nanoseconds();
  state->cuda.now += work.milliseconds;
  work.run();
  if (work.recorded)
    state->cuda.records.push_back({work.kind, work.inGraph, begin, nanoseconds(), work.kernel});
}

template <typename T> void create(T **handle) {
  *handle = new T;
  ++state->cuda.liveObjects;
}
template <typename T> int destroy(T *handle) {
  delete handle;
  --state->cuda.liveObjects;
  return 0;
}

const std::map<std::string, int> kArguments = {{"difference", 3}, {"mean_square", 2}, {"square_sum", 3}, {"sgd", 7},
                                               {"count_step", 2}, {"overrun", 1},     {"bigram", 4},     {"add_bias", 3}};

} // namespace

FakeCuda &fakeCuda() { return state->cuda; }

void resetFakeCuda() {
  delete state;
  state = new State;
}

bool givesBack(std::string_view call) {
  for (const char *word : {"Destroy", "Free", "Release", "Unload"})
    if (call.find(word) != std::string_view::npos)
      return true;
  return false;
}

static void queue(Work work) {
  if (state->capture)
    state->capture->push_back(std::move(work));
  else
    state->stream.push_back(std::move(work));
}

void FakeCuda::submit(std::function<void()> work, double milliseconds, Kind kind, std::string kernel) {
  queue({.run = std::move(work), .milliseconds = milliseconds, .kind = kind, .kernel = std::move(kernel)});
}

} // namespace tapeout::rt::test

using namespace tapeout::rt::test;

#define CALL(name, ...)                                                                                                \
  extern "C" int name(__VA_ARGS__) {                                                                                   \
    if (int error = enter(#name))                                                                                      \
      return error;
#define END                                                                                                            \
  return 0;                                                                                                            \
  }

CALL(cuInit, unsigned)
  if (state->cuda.devices == 0)
    return kNoDevice;
END
CALL(cuDriverGetVersion, int *version) *version = 13000; END
extern "C" int cuGetErrorName(int error, const char **name) {
  *name = error == kOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                     : "CUDA_ERROR_OTHER";
  return 0;
}
extern "C" int cuGetErrorString(int error, const char **text) {
  *text = error == kOutOfMemory ? "out of memory" : error == kIllegalAddress ? "an illegal memory access" : "another error";
  return 0;
}
CALL(cuDeviceGetCount, int *count) *count = state->cuda.devices; END
CALL(cuDeviceGet, int *device, int ordinal) *device = ordinal; END
CALL(cuDeviceGetName, char *name, int length, int) std::strncpy(name, "Fake GPU", length); END
CALL(cuDeviceGetAttribute, int *value, int attribute, int) *value = attribute == 75 ? state->cuda.major : state->cuda.minor; END
CALL(cuDevicePrimaryCtxRetain, void **context, int)
  *context = state;
  ++state->cuda.liveObjects;
END
CALL(cuDevicePrimaryCtxRelease_v2, int) --state->cuda.liveObjects; END
CALL(cuCtxSetCurrent, void *) END

CALL(cuMemGetInfo_v2, size_t *freeBytes, size_t *total)
  *freeBytes = state->cuda.freeBytes;
  *total = size_t(2) << 30;
END
CALL(cuMemAlloc_v2, uint64_t *pointer, size_t bytes)
  if (bytes == 0)
    return kInvalidValue;
  if (bytes >= state->cuda.freeBytes)
    return kOutOfMemory;
  *pointer = reinterpret_cast<uint64_t>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  std::memset(reinterpret_cast<void *>(*pointer), 0x5a, bytes);
  state->cuda.allocations.push_back(bytes);
  ++state->cuda.liveObjects;
END
CALL(cuMemFree_v2, uint64_t pointer)
  std::free(reinterpret_cast<void *>(pointer));
  --state->cuda.liveObjects;
END
CALL(cuMemAllocHost_v2, void **pointer, size_t bytes)
  *pointer = std::malloc(bytes);
  ++state->cuda.liveObjects;
END
CALL(cuMemFreeHost, void *pointer)
  std::free(pointer);
  --state->cuda.liveObjects;
END

static void copyLater(void *to, const void *from, size_t bytes, FakeCuda::Kind kind = FakeCuda::Kind::OtherCopy) {
  state->cuda.submit([=] { std::memcpy(to, from, bytes); }, 0, kind);
}
CALL(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, void *)
  copyLater(reinterpret_cast<void *>(to), from, bytes);
END
CALL(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes, void *)
  copyLater(to, reinterpret_cast<void *>(from), bytes, FakeCuda::Kind::CopyToHost);
END
CALL(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void *)
  copyLater(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
END
CALL(cuMemsetD8Async, uint64_t to, unsigned char value, size_t bytes, void *)
  state->cuda.submit([=] { std::memset(reinterpret_cast<void *>(to), value, bytes); }, 0, FakeCuda::Kind::Fill);
END

CALL(cuModuleLoadDataEx, int **module, const void *image, unsigned, int *, void **)
  const auto *bytes = static_cast<const unsigned char *>(image);
  state->cuda.images.push_back(bytes[0] == 0x7f ? "cubin " + std::to_string(bytes[64]) : "ptx");
  create(module);
END
CALL(cuModuleUnload, int *module) return destroy(module); END
CALL(cuModuleGetFunction, Function **function, void *, const char *symbol)
  static void *kernels = dlopen(TAPEOUT_TEST_KERNELS, RTLD_NOW);
  std::string name = symbol;
  bool table = name.ends_with("_table"), mapped = name.ends_with("_mapped");
  if (table || mapped)
    name = name.substr(0, name.rfind('_'));
  auto arguments = kArguments.find(name);
  if (arguments == kArguments.end())
    return kNotFound;
  auto run = reinterpret_cast<void (*)(void *const *, int64_t, int64_t)>(dlsym(kernels, (name + "_avx2").c_str()));
  state->functions.push_back(std::make_unique<Function>(Function{name, run, arguments->second, table, mapped}));
  *function = state->functions.back().get();
END
CALL(cuFuncSetAttribute, Function *, int, int) END
CALL(cuLaunchKernel, Function *function, unsigned gridX, unsigned, unsigned, unsigned blockX, unsigned, unsigned, unsigned,
     void *, void **parameters, void **)
  auto pointerAt = [&](int i) { return *static_cast<void **>(parameters[i]); };
  std::vector<void *> arguments(function->arguments);
  void **table = function->table ? static_cast<void **>(pointerAt(0)) : nullptr;
  for (int i = 0; !table && i < function->arguments; ++i)
    arguments[i] = pointerAt(i);
  std::vector<FakeTensorMap> maps(function->mapped ? 2 : 0);
  for (size_t i = 0; i < maps.size(); ++i)
    std::memcpy(&maps[i], parameters[arguments.size() + i], sizeof maps[i]);
  int64_t units = int64_t(gridX) * blockX;
  state->cuda.submit([=] {
    if (function->mapped)
      state->cuda.tensorMaps.push_back(maps);
    if (function->name == state->cuda.faultyKernel)
      state->broken = kIllegalAddress;
    else
      function->run(table ? table : arguments.data(), 0, units);
  }, 1, FakeCuda::Kind::Kernel, function->name + (table ? "_table" : ""));
END

CALL(cuTensorMapEncodeTiled, void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
     const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides, int interleave, int swizzle,
     int promotion, int fill)
  constexpr uintptr_t kAlignment = 64;
  if (reinterpret_cast<uintptr_t>(map) % kAlignment != 0 || rank != 2)
    return kInvalidValue;
  *static_cast<FakeTensorMap *>(map) = {type, rank, address, {sizes[0], sizes[1]}, strides[0], {box[0], box[1]},
                                        {elementStrides[0], elementStrides[1]}, interleave, swizzle, promotion, fill};
END

CALL(cuStreamCreate, int **stream, unsigned) create(stream); END
CALL(cuStreamDestroy_v2, int *stream) return destroy(stream); END
CALL(cuStreamSynchronize, void *)
  if (state->capture)
    return kInvalidValue;
  while (!state->stream.empty())
    runOne();
  return state->broken;
END
CALL(cuStreamBeginCapture_v2, void *, int) state->capture = std::make_unique<Graph>(); END
CALL(cuStreamEndCapture, void *, Graph **graph)
  create(graph);
  **graph = std::move(*state->capture);
  state->capture.reset();
END
CALL(cuGraphInstantiateWithFlags, Graph **executable, Graph *graph, unsigned long long)
  create(executable);
  **executable = *graph;
END
CALL(cuGraphLaunch, Graph *executable, void *)
  for (Work work : *executable) {
    work.inGraph = true;
    queue(std::move(work));
  }
  if (state->cuda.strayKernel)
    state->cuda.submit([] {}, 1, FakeCuda::Kind::Kernel, "stray");
END
CALL(cuStreamGetCaptureInfo_v2, void *, int *status, uint64_t *id, Graph **graph, const void **dependencies, size_t *count)
  if (!state->capture || dependencies || count)
    return kInvalidValue;
  *status = 1;
  *id = 1;
  *graph = state->capture.get();
END
CALL(cuGraphGetNodes, Graph *graph, Work **nodes, size_t *count)
  for (size_t i = 0; nodes && i < *count; ++i)
    nodes[i] = &(*graph)[i];
  *count = graph->size();
END
CALL(cuGraphNodeGetType, Work *node, int *type)
  *type = !node->recorded ? 7 : node->kind == FakeCuda::Kind::Kernel ? 0 : node->kind == FakeCuda::Kind::Fill ? 2 : 1;
END
CALL(cuGraphDestroy, Graph *graph) return destroy(graph); END
CALL(cuGraphExecDestroy, Graph *executable) return destroy(executable); END

CALL(cuEventCreate, Event **event, unsigned) create(event); END
CALL(cuEventDestroy_v2, Event *event) return destroy(event); END
CALL(cuEventRecord, Event *event, void *)
  ++event->pending;
  queue({.run = [=] {
           --event->pending;
           event->time = state->cuda.now;
         },
         .milliseconds = 0,
         .kind = FakeCuda::Kind::Kernel,
         .kernel = "",
         .recorded = false});
END
CALL(cuEventSynchronize, Event *event)
  while (event->pending > 0)
    runOne();
  return state->broken;
END
CALL(cuEventElapsedTime, float *milliseconds, Event *begin, Event *end)
  *milliseconds = static_cast<float>(end->time - begin->time);
END
