#include "runtime/device/cuda/CudnnGraph.h"

namespace tapeout::rt {
namespace {

// cudnnBackendAttributeType_t
constexpr int kHandle = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kDouble = 5, kPointer = 6, kHeuristicMode = 8,
              kNumericalNote = 11, kPointwiseMode = 14, kDescriptor = 15, kReductionOperator = 18, kRandomDistribution = 29;
// cudnnBackendAttributeName_t
constexpr int kPointwiseModeOf = 0, kPointwisePrecision = 1, kPointwiseAxis = 9;
constexpr int kHeuristicModeOf = 200, kHeuristicGraph = 201, kHeuristicResults = 202;
constexpr int kConfigEngine = 300;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402;
constexpr int kOperationPointwise = 750, kOperationPointwiseX = 751, kOperationPointwiseB = 752, kOperationPointwiseY = 753,
              kOperationPointwiseT = 758;
constexpr int kGraphHandle = 800, kGraphOperations = 801;
constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorSizes = 902, kTensorStrides = 903, kTensorId = 906,
              kTensorIsVirtual = 907, kTensorIsByValue = 908;
constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
constexpr int kEngineNumericalNote = 1303;
constexpr int kMatmulPrecision = 1500, kOperationMatmulA = 1520, kOperationMatmulB = 1521, kOperationMatmulC = 1522,
              kOperationMatmul = 1523, kOperationMatmulM = 1525, kOperationMatmulN = 1526, kOperationMatmulK = 1527;
constexpr int kReductionOperatorOf = 1600, kReductionPrecision = 1601, kOperationReductionX = 1610,
              kOperationReductionY = 1611, kOperationReduction = 1612;
constexpr int kReshapeX = 2200, kReshapeY = 2201;
constexpr int kDistribution = 2300, kBernoulliProbability = 2305, kOperationRandomY = 2310, kOperationRandomSeed = 2311,
              kOperationRandom = 2312, kOperationRandomOffset = 2313;

constexpr int kHeuristicsBest = 3, kHeuristicsFallback = 2; // cudnnBackendHeurMode_t
constexpr int kNondeterministic = 4;                        // cudnnBackendNumericalNote_t
constexpr int kBernoulli = 0;                               // cudnnRngDistribution_t
constexpr int kMaxConfigs = 16;

} // namespace

struct CudnnAttribute {
  int name, type;
  int64_t count;
  const void *values;

  CudnnAttribute(int name, int type, const void *value, int64_t count = 1)
      : name(name), type(type), count(count), values(value) {}
  CudnnAttribute(int name, const CudnnGraph::Sizes &sizes)
      : CudnnAttribute(name, kInt64, sizes.data(), static_cast<int64_t>(sizes.size())) {}
  CudnnAttribute(int name, const CudnnType &type) : CudnnAttribute(name, kDataType, &type) {}
  CudnnAttribute(int name, const CudnnDescriptor &descriptor) : CudnnAttribute(name, kDescriptor, &descriptor) {}
};

namespace {

/// Creates a descriptor with the attributes that have values.
Status build(const CudnnLibrary &library, CudnnKind kind, const char *what, std::span<const CudnnAttribute> attributes,
             Owned<CudnnDescriptor> &result) {
  CudnnDescriptor descriptor = nullptr;
  TAPEOUT_RETURN_IF_ERROR(library.check(library.createDescriptor(static_cast<int>(kind), &descriptor), what));
  result = Owned(descriptor, library.destroyDescriptor);
  for (const CudnnAttribute &attribute : attributes)
    TAPEOUT_RETURN_IF_ERROR(library.check(
        library.setAttribute(descriptor, attribute.name, attribute.type, attribute.count, attribute.values), what));
  return library.check(library.finalize(descriptor), what);
}

} // namespace

Result<Owned<CudnnDescriptor>> bind(const CudnnContext &context, std::span<const CudnnBinding> bindings,
                                    CuDevicePointer workspaceAddress) {
  CudnnGraph::Sizes ids;
  std::vector<void *> addresses;
  for (const CudnnBinding &binding : bindings) {
    ids.push_back(binding.id);
    addresses.push_back(binding.address);
  }
  auto *workspace = reinterpret_cast<void *>(workspaceAddress);
  const CudnnAttribute attributes[] = {{kPackIds, ids},
                                       {kPackPointers, kPointer, addresses.data(), static_cast<int64_t>(addresses.size())},
                                       {kPackWorkspace, kPointer, &workspace}};
  Owned<CudnnDescriptor> pack;
  TAPEOUT_RETURN_IF_ERROR(build(context.library, CudnnKind::VariantPack, "arguments", attributes, pack));
  return pack;
}

CudnnDescriptor CudnnGraph::make(CudnnKind kind, const char *what, std::initializer_list<CudnnAttribute> attributes) {
  return make(kind, what, std::span(attributes.begin(), attributes.size()));
}
CudnnDescriptor CudnnGraph::make(CudnnKind kind, const char *what, std::span<const CudnnAttribute> attributes) {
  if (!status_.isOk())
    return nullptr;
  Owned<CudnnDescriptor> made;
  status_ = build(context_.library, kind, what, attributes, made);
  if (!status_.isOk())
    return nullptr;
  descriptors_.push_back(std::move(made));
  return descriptors_.back().get();
}

// --- Tensors ---

CudnnGraph::Tensor CudnnGraph::makeTensor(int64_t id, CudnnType type, const Sizes &sizes, const Sizes &strides, bool isValue,
                                          bool isScalar) {
  const int64_t alignment = 16;
  return {make(CudnnKind::Tensor, "a tensor",
               {{kTensorType, type},
                {kTensorSizes, sizes},
                {kTensorStrides, strides},
                {kTensorId, kInt64, &id},
                {kTensorAlignment, kInt64, &alignment},
                {kTensorIsVirtual, kBoolean, &isValue},
                {kTensorIsByValue, kBoolean, &isScalar}}),
          sizes, strides};
}

CudnnGraph::Tensor CudnnGraph::tensor(int64_t id, CudnnType type, const Sizes &sizes, const Sizes &strides) {
  return makeTensor(id, type, sizes, strides, false, false);
}
CudnnGraph::Tensor CudnnGraph::value(CudnnType type, const Sizes &sizes, const Sizes &strides) {
  return makeTensor(nextId_++, type, sizes, strides, true, false);
}
CudnnGraph::Tensor CudnnGraph::value(CudnnType type, const Sizes &sizes) {
  return value(type, sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1});
}
CudnnGraph::Tensor CudnnGraph::scalar(int64_t id) {
  return makeTensor(id, CudnnType::F32, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

// --- Operations ---

void CudnnGraph::addPointwise(CudnnPointwise mode, CudnnType computed, const Tensor &x, const Tensor &y,
                              const Tensor &condition, const Tensor &result, std::optional<int64_t> axis) {
  CudnnDescriptor pointwise =
      axis ? make(CudnnKind::Pointwise, "an elementwise operation",
                  {{kPointwiseModeOf, kPointwiseMode, &mode}, {kPointwisePrecision, computed}, {kPointwiseAxis, kInt64, &*axis}})
           : make(CudnnKind::Pointwise, "an elementwise operation",
                  {{kPointwiseModeOf, kPointwiseMode, &mode}, {kPointwisePrecision, computed}});
  const CudnnAttribute self(kOperationPointwise, pointwise), from(kOperationPointwiseX, x.descriptor),
      to(kOperationPointwiseY, result.descriptor), second(kOperationPointwiseB, y.descriptor),
      third(kOperationPointwiseT, condition.descriptor);
  constexpr const char *what = "an elementwise operation";
  operations_.push_back(condition.descriptor ? make(CudnnKind::OperationPointwise, what, {self, from, to, second, third})
                        : y.descriptor       ? make(CudnnKind::OperationPointwise, what, {self, from, to, second})
                                             : make(CudnnKind::OperationPointwise, what, {self, from, to}));
}

CudnnGraph::Tensor CudnnGraph::pointwise(CudnnPointwise mode, const Tensor &x, const Tensor &y, const Tensor &condition) {
  Tensor result = value(CudnnType::F32, x.sizes, x.strides);
  addPointwise(mode, CudnnType::F32, x, y, condition, result);
  return result;
}
void CudnnGraph::pointwiseInto(CudnnPointwise mode, const Tensor &x, const Tensor &y, const Tensor &result) {
  addPointwise(mode, CudnnType::F32, x, y, {}, result);
}
CudnnGraph::Tensor CudnnGraph::pointwiseAs(CudnnType type, CudnnPointwise mode, const Tensor &x, const Tensor &y) {
  Tensor result = value(type, x.sizes, x.strides);
  addPointwise(mode, CudnnType::F32, x, y, {}, result);
  return result;
}
CudnnGraph::Tensor CudnnGraph::index(const Tensor &like, int64_t dimension) {
  Tensor result = value(CudnnType::I32, like.sizes, like.strides);
  addPointwise(CudnnPointwise::Index, CudnnType::F32, like, {}, {}, result, dimension);
  return result;
}
CudnnGraph::Tensor CudnnGraph::compare(CudnnPointwise mode, const Tensor &x, const Tensor &y) {
  Tensor result = value(CudnnType::Boolean, x.sizes, x.strides);
  addPointwise(mode, CudnnType::Boolean, x, y, {}, result);
  return result;
}

void CudnnGraph::multiplyInto(const Tensor &a, const Tensor &b, const Tensor &result, const Extents &extents) {
  const CudnnType precision = CudnnType::F32;
  CudnnDescriptor matmul = make(CudnnKind::Matmul, "a product", {{kMatmulPrecision, precision}});
  std::vector<CudnnAttribute> attributes = {{kOperationMatmulA, a.descriptor},
                                            {kOperationMatmulB, b.descriptor},
                                            {kOperationMatmulC, result.descriptor},
                                            {kOperationMatmul, matmul}};
  for (auto [name, extent] : {std::pair(kOperationMatmulM, &extents.m), {kOperationMatmulN, &extents.n},
                              {kOperationMatmulK, &extents.k}})
    if (extent->descriptor)
      attributes.emplace_back(name, extent->descriptor);
  operations_.push_back(make(CudnnKind::OperationMatmul, "a product", attributes));
}
CudnnGraph::Tensor CudnnGraph::multiply(const Tensor &a, const Tensor &b, const Extents &extents) {
  Tensor result = value(CudnnType::F32, {a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[3]});
  multiplyInto(a, b, result, extents);
  return result;
}

CudnnGraph::Tensor CudnnGraph::reduceLast(CudnnReduction reduction, const Tensor &x) {
  Tensor result = value(CudnnType::F32, {x.sizes[0], x.sizes[1], x.sizes[2], 1});
  reduceInto(reduction, x, result);
  return result;
}
void CudnnGraph::reduceInto(CudnnReduction reduction, const Tensor &x, const Tensor &result) {
  const CudnnType precision = CudnnType::F32;
  CudnnDescriptor self = make(CudnnKind::Reduction, "a reduction",
                              {{kReductionOperatorOf, kReductionOperator, &reduction}, {kReductionPrecision, precision}});
  operations_.push_back(make(CudnnKind::OperationReduction, "a reduction",
                             {{kOperationReductionX, x.descriptor},
                              {kOperationReductionY, result.descriptor},
                              {kOperationReduction, self}}));
}

CudnnGraph::Tensor CudnnGraph::bernoulli(double probability, const Tensor &seed, const Tensor &offset, const Sizes &sizes) {
  Tensor result = value(CudnnType::F32, sizes);
  CudnnDescriptor self = make(CudnnKind::Random, "random numbers",
                              {{kDistribution, kRandomDistribution, &kBernoulli},
                               {kBernoulliProbability, kDouble, &probability}});
  operations_.push_back(make(CudnnKind::OperationRandom, "random numbers",
                             {{kOperationRandomY, result.descriptor},
                              {kOperationRandomSeed, seed.descriptor},
                              {kOperationRandom, self},
                              {kOperationRandomOffset, offset.descriptor}}));
  return result;
}

CudnnGraph::Tensor CudnnGraph::reshape(const Tensor &x, CudnnType type, const Sizes &sizes, const Sizes &strides) {
  Tensor result = value(type, sizes, strides);
  operations_.push_back(make(CudnnKind::OperationReshape, "a reshape",
                             {{kReshapeX, x.descriptor}, {kReshapeY, result.descriptor}}));
  return result;
}

// --- Plans ---

bool CudnnGraph::repeatsItsBits(CudnnDescriptor config) {
  const CudnnLibrary &library = context_.library;
  CudnnDescriptor engine = nullptr;
  if (library.createDescriptor(static_cast<int>(CudnnKind::Engine), &engine) != kCudnnSuccess)
    return false;
  Owned<CudnnDescriptor> owned(engine, library.destroyDescriptor);
  int64_t count = 0;
  int notes[16];
  if (library.getAttribute(config, kConfigEngine, kDescriptor, 1, &count, &engine) != kCudnnSuccess ||
      library.getAttribute(engine, kEngineNumericalNote, kNumericalNote, std::size(notes), &count, notes) != kCudnnSuccess)
    return false;
  for (int64_t i = 0; i < count; ++i)
    if (notes[i] == kNondeterministic)
      return false;
  return true;
}

std::optional<CudnnPlan> CudnnGraph::planOf(CudnnDescriptor config, uint64_t workspaceBytes) {
  CudnnPlan plan;
  CudnnHandle handle = context_.handle.get();
  const CudnnAttribute attributes[] = {{kPlanHandle, kHandle, &handle}, {kPlanConfig, config}};
  int64_t bytes = 0, count = 0;
  if (!build(context_.library, CudnnKind::ExecutionPlan, "a plan", attributes, plan.descriptor).isOk() ||
      context_.library.getAttribute(plan.descriptor.get(), kPlanWorkspace, kInt64, 1, &count, &bytes) != kCudnnSuccess ||
      bytes < 0 || static_cast<uint64_t>(bytes) > workspaceBytes)
    return std::nullopt;
  plan.workspaceBytes = bytes;
  return plan;
}

Result<CudnnPlan> CudnnGraph::compile(uint64_t workspaceBytes, bool isDeterministic) {
  CudnnHandle handle = context_.handle.get();
  CudnnDescriptor graph = make(CudnnKind::OperationGraph, "a graph",
                               {{kGraphOperations, kDescriptor, operations_.data(), static_cast<int64_t>(operations_.size())},
                                {kGraphHandle, kHandle, &handle}});
  for (int mode : {kHeuristicsBest, kHeuristicsFallback}) {
    CudnnDescriptor heuristic =
        make(CudnnKind::EngineHeuristic, "heuristics", {{kHeuristicGraph, graph}, {kHeuristicModeOf, kHeuristicMode, &mode}});
    if (!status_.isOk())
      return status_;
    std::vector<Owned<CudnnDescriptor>> owned;
    std::vector<CudnnDescriptor> configs;
    for (int i = 0; i < kMaxConfigs; ++i) {
      CudnnDescriptor config = nullptr;
      status_ = context_.library.check(
          context_.library.createDescriptor(static_cast<int>(CudnnKind::EngineConfig), &config), "a configuration");
      if (!status_.isOk())
        return status_;
      owned.emplace_back(config, context_.library.destroyDescriptor);
      configs.push_back(config);
    }
    int64_t found = 0;
    if (context_.library.getAttribute(heuristic, kHeuristicResults, kDescriptor, kMaxConfigs, &found, configs.data()) !=
        kCudnnSuccess)
      continue;
    for (int64_t i = 0; i < found; ++i)
      if (!isDeterministic || repeatsItsBits(configs[i]))
        if (std::optional<CudnnPlan> plan = planOf(configs[i], workspaceBytes))
          return std::move(*plan);
  }
  return Status::error(ExitCode::Unavailable, "cuDNN has no kernel for this graph within the workspace");
}

} // namespace tapeout::rt
