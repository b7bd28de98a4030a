// cudnn of the fake: interprets graphs of the backend API one operation at a time, straight from the definitions, in double;
// values are rounded to the type of their tensor. Like the library it offers an engine that repeats its bits only beside a
// faster one that does not, and needs workspace for scores; the faster one runs only graphs with a product in f32 in memory, to
// which it adds. Like the library it refuses a variant pack that is not exactly the graph's.
#include "runtime/base/BFloat16.h"
#include "runtime/base/Philox.h"
#include "runtime/device/cuda/Cudnn.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>

using namespace tapeout;
using namespace tapeout::rt;
using namespace tapeout::rt::test;

namespace {

// Numbers of cudnn_graph.h, of the attributes that an interpreter reads.
enum Attribute {
  PointwiseMode = 0, PointwiseAxis = 9, HeuristicMode = 200, HeuristicGraph = 201, HeuristicResults = 202, ConfigEngine = 300,
  PlanConfig = 401, PlanWorkspace = 402, PointwiseOf = 750, PointwiseX = 751, PointwiseB = 752, PointwiseY = 753,
  PointwiseT = 758, GraphOperations = 801, TensorType = 901, TensorSizes = 902, TensorStrides = 903, TensorId = 906,
  TensorIsVirtual = 907, TensorIsByValue = 908, PackIds = 1000, PackPointers = 1001, PackWorkspace = 1003,
  EngineNumericalNote = 1303, MatmulA = 1520, MatmulB = 1521, MatmulC = 1522,
  MatmulM = 1525, MatmulN = 1526, MatmulK = 1527, ReductionOperator = 1600, ReductionX = 1610,
  ReductionY = 1611, ReductionOf = 1612, ReshapeX = 2200, ReshapeY = 2201, BernoulliProbability = 2305, RandomY = 2310,
  RandomSeed = 2311, RandomOf = 2312, RandomOffset = 2313
};
constexpr int kTypeDescriptor = 15, kNondeterministicNote = 4, kHeuristicsBest = 3;
constexpr int kBadParameter = 2000, kNotSupported = 3000;

/// What a descriptor stands for; others that refer to it keep it.
struct Node {
  int kind = 0;
  bool finalized = false;
  int engine = 0; // of a configuration: 0 is fast, 1 repeats its bits
  std::map<int, std::vector<uint8_t>> values;
  std::map<int, std::vector<std::shared_ptr<Node>>> nodes;

  bool has(int attribute) const { return values.count(attribute) || nodes.count(attribute); }
  template <typename T> std::vector<T> all(int attribute) const {
    const std::vector<uint8_t> &bytes = values.at(attribute);
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <typename T> T one(int attribute) const { return all<T>(attribute).at(0); }
  const Node &node(int attribute) const { return *nodes.at(attribute).at(0); }
};
using Handle = std::shared_ptr<Node>;

using Sizes = std::vector<int64_t>;
using Index = std::array<int64_t, 4>;

template <typename Body> void forEach(const Sizes &s, const Body &body) {
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = 0; b < s[1]; ++b)
      for (int64_t c = 0; c < s[2]; ++c)
        for (int64_t d = 0; d < s[3]; ++d)
          body(Index{a, b, c, d});
}
int64_t at(const Index &i, const Sizes &strides) {
  return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
}

size_t bytesOf(int type) {
  switch (static_cast<CudnnType>(type)) {
  case CudnnType::BF16:
  case CudnnType::F16: return 2;
  case CudnnType::I64: return 8;
  default: return 4;
  }
}
double load(int type, const uint8_t *from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  switch (static_cast<CudnnType>(type)) {
  case CudnnType::BF16: return bfloat16ToFloat(half);
  case CudnnType::F16: return halfToFloat(half);
  case CudnnType::I64: return static_cast<double>(*reinterpret_cast<const int64_t *>(from));
  case CudnnType::I32: return *reinterpret_cast<const int32_t *>(from);
  default: return *reinterpret_cast<const float *>(from);
  }
}
double rounded(int type, double value) {
  switch (static_cast<CudnnType>(type)) {
  case CudnnType::BF16: return bfloat16ToFloat(doubleToBfloat16(value));
  case CudnnType::F16: return halfToFloat(doubleToHalf(value));
  default: return static_cast<float>(value);
  }
}
void store(int type, uint8_t *to, double value) {
  uint16_t half = static_cast<CudnnType>(type) == CudnnType::BF16 ? doubleToBfloat16(value) : doubleToHalf(value);
  auto number = static_cast<float>(value);
  bytesOf(type) == 2 ? std::memcpy(to, &half, 2) : std::memcpy(to, &number, 4);
}

bool isAccumulator(const Node &tensor) {
  return !tensor.one<uint8_t>(TensorIsVirtual) && tensor.one<int>(TensorType) == static_cast<int>(CudnnType::F32);
}
bool accumulates(const Node &graph) {
  for (const Handle &operation : graph.nodes.at(GraphOperations))
    if (operation->kind == static_cast<int>(CudnnKind::OperationMatmul) && isAccumulator(operation->node(MatmulC)))
      return true;
  return false;
}

class Interpreter {
public:
  Interpreter(Handle graph, std::map<int64_t, uint8_t *> addresses) : graph_(std::move(graph)), addresses_(std::move(addresses)) {}

  void run() {
    for (const Handle &operation : graph_->nodes.at(GraphOperations))
      switch (static_cast<CudnnKind>(operation->kind)) {
      case CudnnKind::OperationPointwise: pointwise(*operation); break;
      case CudnnKind::OperationMatmul: multiply(*operation); break;
      case CudnnKind::OperationReduction: reduce(*operation); break;
      case CudnnKind::OperationReshape: reshape(*operation); break;
      default: random(*operation); break;
      }
  }

private:
  struct Tensor {
    Sizes sizes;
    std::vector<double> values; // row-major
    double operator()(const Index &i) const { // sizes of one repeat
      int64_t index = 0;
      for (int d = 0; d < 4; ++d)
        index = index * sizes[d] + (sizes[d] == 1 ? 0 : i[d]);
      return values[index];
    }
  };

  Tensor read(const Node &tensor) {
    if (auto found = values_.find(tensor.one<int64_t>(TensorId)); found != values_.end())
      return found->second;
    Tensor result{tensor.all<int64_t>(TensorSizes), {}};
    const int type = tensor.one<int>(TensorType);
    const uint8_t *from = addresses_.at(tensor.one<int64_t>(TensorId));
    forEach(result.sizes, [&](const Index &i) {
      result.values.push_back(load(type, from + at(i, tensor.all<int64_t>(TensorStrides)) * bytesOf(type)));
    });
    return result;
  }
  template <typename Value> void write(const Node &tensor, const Value &value) {
    Tensor result{tensor.all<int64_t>(TensorSizes), {}};
    const int type = tensor.one<int>(TensorType);
    forEach(result.sizes, [&](const Index &i) { result.values.push_back(rounded(type, value(i))); });
    if (!tensor.one<uint8_t>(TensorIsVirtual)) {
      const Sizes strides = tensor.all<int64_t>(TensorStrides);
      uint8_t *to = addresses_.at(tensor.one<int64_t>(TensorId));
      forEach(result.sizes, [&](const Index &i) { store(type, to + at(i, strides) * bytesOf(type), result(i)); });
    }
    values_[tensor.one<int64_t>(TensorId)] = std::move(result);
  }

  void pointwise(const Node &operation) {
    const Node &self = operation.node(PointwiseOf);
    const auto mode = static_cast<rt::CudnnPointwise>(self.one<int>(PointwiseMode));
    Tensor x = read(operation.node(PointwiseX)), b = x, t = x;
    if (operation.has(PointwiseB))
      b = read(operation.node(PointwiseB));
    if (operation.has(PointwiseT))
      t = read(operation.node(PointwiseT));
    const int64_t axis = self.has(PointwiseAxis) ? self.one<int64_t>(PointwiseAxis) : 0;
    write(operation.node(PointwiseY), [&](const Index &i) -> double {
      switch (mode) {
      case rt::CudnnPointwise::Add: return x(i) + b(i);
      case rt::CudnnPointwise::Multiply: return x(i) * b(i);
      case rt::CudnnPointwise::Divide: return x(i) / b(i);
      case rt::CudnnPointwise::Subtract: return x(i) - b(i);
      case rt::CudnnPointwise::Exp: return std::exp(x(i));
      case rt::CudnnPointwise::Log: return std::log(x(i));
      case rt::CudnnPointwise::Identity: return x(i);
      case rt::CudnnPointwise::GreaterOrEqual: return x(i) >= b(i);
      case rt::CudnnPointwise::Less: return x(i) < b(i);
      case rt::CudnnPointwise::And: return x(i) != 0 && b(i) != 0;
      case rt::CudnnPointwise::Index: return static_cast<double>(i[axis]);
      case rt::CudnnPointwise::Select: return t(i) != 0 ? x(i) : b(i);
      }
      return NAN;
    });
  }
  void multiply(const Node &operation) {
    Tensor a = read(operation.node(MatmulA)), b = read(operation.node(MatmulB));
    const int64_t group = a.sizes[1] / b.sizes[1];
    auto extents = [&](int attribute, int64_t all) { // that count, of each matrix
      return operation.has(attribute) ? read(operation.node(attribute)) : Tensor{{1, 1, 1, 1}, {double(all)}};
    };
    const Tensor m = extents(MatmulM, a.sizes[2]), n = extents(MatmulN, b.sizes[3]), k = extents(MatmulK, a.sizes[3]);
    const Node &result = operation.node(MatmulC);
    std::optional<Tensor> before;
    if (isAccumulator(result))
      before = read(result);
    write(result, [&](const Index &i) {
      double sum = before ? (*before)(i) : 0;
      for (int64_t p = 0; p < a.sizes[3] && p < k(i) && i[2] < m(i) && i[3] < n(i); ++p)
        sum += a({i[0], i[1], i[2], p}) * b({i[0], i[1] / group, p, i[3]});
      return sum;
    });
  }
  /// Neighbours that become one element.
  void reduce(const Node &operation) {
    Tensor x = read(operation.node(ReductionX));
    const bool isMax = operation.node(ReductionOf).one<int>(ReductionOperator) == static_cast<int>(CudnnReduction::Max);
    const Sizes sizes = operation.node(ReductionY).all<int64_t>(TensorSizes);
    const Sizes group = {x.sizes[0] / sizes[0], x.sizes[1] / sizes[1], x.sizes[2] / sizes[2], x.sizes[3] / sizes[3]};
    write(operation.node(ReductionY), [&](const Index &i) {
      double result = isMax ? -std::numeric_limits<double>::infinity() : 0;
      forEach(group, [&](const Index &j) {
        Index from;
        for (int d = 0; d < 4; ++d)
          from[d] = i[d] * group[d] + j[d];
        result = isMax ? std::max(result, x(from)) : result + x(from);
      });
      return result;
    });
  }
  /// The same memory in other strides.
  void reshape(const Node &operation) {
    const Node &from = operation.node(ReshapeX), &to = operation.node(ReshapeY);
    Tensor x = read(from);
    std::unordered_map<int64_t, double> memory;
    const Sizes strides = from.all<int64_t>(TensorStrides), newStrides = to.all<int64_t>(TensorStrides);
    forEach(x.sizes, [&](const Index &i) { memory[at(i, strides)] = x(i); });
    write(to, [&](const Index &i) { return memory.at(at(i, newStrides)); });
  }
  void random(const Node &operation) {
    const double probability = operation.node(RandomOf).one<double>(BernoulliProbability);
    auto seed = static_cast<uint64_t>(read(operation.node(RandomSeed)).values[0]);
    auto offset = static_cast<uint64_t>(read(operation.node(RandomOffset)).values[0]);
    uint64_t element = 0;
    write(operation.node(RandomY), [&](const Index &) {
      return RandomStream{.seed = seed, .stream = offset}.uniform(element++) < probability;
    });
  }

  Handle graph_;
  std::map<int64_t, uint8_t *> addresses_;
  std::map<int64_t, Tensor> values_;
};

/// The tensors of a graph that lie in memory, by id.
std::map<int64_t, const Node *> tensorsInMemory(const Node &graph) {
  std::map<int64_t, const Node *> found;
  for (const Handle &operation : graph.nodes.at(GraphOperations))
    for (const auto &[attribute, nodes] : operation->nodes)
      for (const Handle &node : nodes)
        if (node->kind == static_cast<int>(CudnnKind::Tensor) && !node->one<uint8_t>(TensorIsVirtual))
          found[node->one<int64_t>(TensorId)] = node.get();
  return found;
}

/// Scores of a backward graph, in tiles of 128, of the engine that repeats its bits.
int64_t workspaceOf(const Node &config) {
  int64_t bytes = 0;
  for (const Handle &operation : config.node(HeuristicGraph).nodes.at(GraphOperations))
    if (operation->kind == static_cast<int>(CudnnKind::OperationReshape)) {
      Sizes sizes = operation->node(ReshapeY).all<int64_t>(TensorSizes);
      if (sizes[2] == sizes[3])
        bytes = sizes[0] * sizes[1] * ((sizes[2] + 127) / 128 * 128) * ((sizes[2] + 127) / 128 * 128) * 2;
    }
  return config.engine == 1 ? bytes : 0;
}

size_t sizeOfType(int type) {
  switch (type) {
  case 2: return 1;                             // boolean
  case 0: case 3: case 5: case 6: return 8;     // handle, int64, double, pointer
  default: return 4;
  }
}

} // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
const char *cudnnGetErrorString(int status) { return status == 0 ? "success" : "a fake error"; }
void cudnnGetLastErrorString(char *message, size_t bytes) { std::snprintf(message, bytes, "of the fake"); }
int cudnnCreate(int **handle) {
  *handle = new int;
  ++fakeCuda().liveObjects;
  return 0;
}
int cudnnDestroy(int *handle) {
  delete handle;
  --fakeCuda().liveObjects;
  return 0;
}
int cudnnSetStream(int *, void *) { return 0; }

int cudnnBackendCreateDescriptor(int kind, Handle **descriptor) {
  *descriptor = new Handle(std::make_shared<Node>());
  (**descriptor)->kind = kind;
  ++fakeCuda().liveObjects;
  return 0;
}
int cudnnBackendDestroyDescriptor(Handle *descriptor) {
  delete descriptor;
  --fakeCuda().liveObjects;
  return 0;
}
int cudnnBackendSetAttribute(Handle *descriptor, int attribute, int type, int64_t count, const void *values) {
  Node &node = **descriptor;
  if (node.finalized)
    return kBadParameter;
  if (type == kTypeDescriptor) {
    for (int64_t i = 0; i < count; ++i) {
      Handle *other = static_cast<Handle *const *>(values)[i];
      if (!other || !(*other)->finalized)
        return kBadParameter;
      node.nodes[attribute].push_back(*other);
    }
  } else {
    auto *bytes = static_cast<const uint8_t *>(values);
    node.values[attribute].assign(bytes, bytes + count * sizeOfType(type));
  }
  return 0;
}
int cudnnBackendFinalize(Handle *descriptor) {
  (*descriptor)->finalized = true;
  return 0;
}
int cudnnBackendGetAttribute(Handle *descriptor, int attribute, int, int64_t room, int64_t *count, void *values) {
  Node &node = **descriptor;
  if (!node.finalized)
    return kBadParameter;
  *count = 1;
  if (attribute == HeuristicResults) {
    if (node.one<int>(HeuristicMode) != kHeuristicsBest || room < 2)
      return kNotSupported;
    *count = 2;
    for (int engine : {0, 1}) {
      Node &config = **static_cast<Handle **>(values)[engine];
      config.engine = engine;
      config.nodes[HeuristicGraph] = node.nodes.at(HeuristicGraph);
      config.finalized = true;
    }
  } else if (attribute == ConfigEngine) {
    Node &engine = ***static_cast<Handle **>(values);
    engine.engine = node.engine;
    engine.finalized = true;
  } else if (attribute == EngineNumericalNote) {
    *count = node.engine == 0 ? 1 : 0;
    *static_cast<int *>(values) = kNondeterministicNote;
  } else if (attribute == PlanWorkspace) {
    *static_cast<int64_t *>(values) = workspaceOf(node.node(PlanConfig));
  } else {
    return kNotSupported;
  }
  return 0;
}
int cudnnBackendExecute(int *, Handle *plan, Handle *pack) {
  const Node &config = (*plan)->node(PlanConfig);
  Handle graph = config.nodes.at(HeuristicGraph).at(0);
  if (config.engine != (accumulates(*graph) ? 0 : 1))
    return kNotSupported;
  auto ids = (*pack)->all<int64_t>(PackIds);
  auto pointers = (*pack)->all<uint8_t *>(PackPointers);
  auto *workspace = (*pack)->one<uint8_t *>(PackWorkspace);
  std::map<int64_t, const Node *> tensors = tensorsInMemory(*graph);
  std::map<int64_t, uint8_t *> addresses;
  auto scalars = std::make_shared<std::map<int64_t, float>>(); // read now
  for (size_t i = 0; i < ids.size(); ++i) {
    auto found = tensors.find(ids[i]);
    if (found == tensors.end() || !pointers[i])
      return kBadParameter;
    addresses[ids[i]] = pointers[i];
    if (found->second->one<uint8_t>(TensorIsByValue)) {
      std::memcpy(&(*scalars)[ids[i]], pointers[i], sizeof(float));
      addresses[ids[i]] = reinterpret_cast<uint8_t *>(&(*scalars)[ids[i]]);
    }
  }
  if (addresses.size() != tensors.size())
    return kBadParameter;
  fakeCuda().submit(
      [=, bytes = workspaceOf(config)] {
        std::memset(workspace, 0xA5, bytes);
        Interpreter(graph, addresses).run();
        (void)scalars;
        ++fakeCuda().attentions;
      },
      1, FakeCuda::Kind::Kernel, "fake_attention");
  return 0;
}

} // extern "C"
