#include "codegen/PlanWriter.h"

#include "ir/plan/Plan.h"
#include "ir/tape/Tape.h"
#include "runtime/plan_generated.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tapeout::codegen {

namespace {

plan::ElementType elementType(Type type) {
  if (type.isF32())
    return plan::ElementType::F32;
  if (type.isF64())
    return plan::ElementType::F64;
  if (type.isBF16())
    return plan::ElementType::BF16;
  if (type.isF16())
    return plan::ElementType::F16;
  if (type.isInteger(1))
    return plan::ElementType::I1;
  return type.isInteger(32) ? plan::ElementType::I32 : plan::ElementType::I64;
}

plan::SlotKind slotKind(StringRef kind) {
  return llvm::StringSwitch<plan::SlotKind>(kind)
      .Case("arena", plan::SlotKind::Arena)
      .Case("parameter", plan::SlotKind::Parameter)
      .Case("optimizer_state", plan::SlotKind::OptimizerState)
      .Case("counter", plan::SlotKind::Counter)
      .Case("config", plan::SlotKind::Config)
      .Case("input", plan::SlotKind::Input)
      .Case("copy", plan::SlotKind::Copy)
      .Default(plan::SlotKind::Output);
}

plan::WindowFunction windowFunction(StringRef mnemonic) {
  return llvm::StringSwitch<plan::WindowFunction>(mnemonic)
      .Case("convolution", plan::WindowFunction::Convolution)
      .Case("convolution_input_grad", plan::WindowFunction::ConvolutionInputGrad)
      .Case("convolution_weight_grad", plan::WindowFunction::ConvolutionWeightGrad)
      .Case("max_pool", plan::WindowFunction::MaxPool)
      .Case("max_pool_grad", plan::WindowFunction::MaxPoolGrad)
      .Case("avg_pool", plan::WindowFunction::AvgPool)
      .Default(plan::WindowFunction::AvgPoolGrad);
}

std::unique_ptr<plan::InitializerT> initializer(DictionaryAttr attributes) {
  auto result = std::make_unique<plan::InitializerT>();
  result->kind = llvm::StringSwitch<plan::InitializerKind>(attributes.getAs<StringAttr>("kind").getValue())
                     .Case("ones", plan::InitializerKind::Ones)
                     .Case("constant", plan::InitializerKind::Constant)
                     .Case("normal", plan::InitializerKind::Normal)
                     .Case("uniform", plan::InitializerKind::Uniform)
                     .Case("external", plan::InitializerKind::Embedded)
                     .Default(plan::InitializerKind::Zeros);
  result->a = attributes.getAs<FloatAttr>("a").getValueAsDouble();
  result->b = attributes.getAs<FloatAttr>("b").getValueAsDouble();
  result->stream = attributes.getAs<IntegerAttr>("stream").getInt();
  return result;
}

std::unique_ptr<plan::TensorMapT> tensorMap(const TensorMap &map) {
  auto result = std::make_unique<plan::TensorMapT>();
  result->argument = map.argument;
  result->offset = map.offset;
  result->rows = map.rows;
  result->columns = map.columns;
  result->row_stride = map.rowStride;
  result->box_rows = map.boxRows;
  result->box_columns = map.boxColumns;
  return result;
}

uint8_t phaseNumber(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(tape::kPhaseAttr);
  return llvm::StringSwitch<uint8_t>(phase ? phase.getValue() : "").Case("loss", 1).Case("backward", 2).Case("optimizer", 3).Default(0);
}

class PlanSerializer {
public:
  explicit PlanSerializer(ModuleOp module) : module_(module) {}

  LogicalResult addSlots() {
    for (auto slot : module_.getOps<plan::SlotOp>()) {
      if (slot.getSlot().use_empty())
        continue;
      if (!slot.getOffset())
        return slot.emitError("has no offset; run plan-memory first");
      slots_[slot.getSlot()] = result_.slots.size();
      auto type = cast<RankedTensorType>(slot.getType());
      auto out = std::make_unique<plan::SlotT>();
      out->name = slot.getSym().str();
      out->kind = slotKind(slot.getKind());
      out->element_type = elementType(type.getElementType());
      out->shape.assign(type.getShape().begin(), type.getShape().end());
      out->bytes = slot.getBytes();
      out->offset = *slot.getOffset();
      if (auto init = slot->getAttrOfType<DictionaryAttr>(tape::kInitAttr))
        out->initializer = initializer(init);
      out->trainable = !slot->hasAttr(tape::kFrozenAttr) && !slot->hasAttr(tape::kStatisticAttr);
      result_.slots.push_back(std::move(out));
    }
    return success();
  }

  LogicalResult addKernels(const std::vector<KernelRecord> &records) {
    llvm::StringMap<const KernelRecord *> bySymbol;
    for (const KernelRecord &record : records)
      bySymbol[record.symbol] = &record;
    for (auto kernel : module_.getOps<plan::KernelOp>()) {
      const KernelRecord *record = bySymbol.lookup(kernel.getSymName());
      if (!record)
        return kernel.emitError("has not been compiled");
      kernels_[kernel.getSymName()] = result_.kernels.size();
      Block &body = kernel.getBody().front();
      auto out = std::make_unique<plan::KernelT>();
      out->symbol = record->symbol;
      out->units = record->units;
      out->grain = record->grain;
      out->result_count = body.getTerminator()->getNumOperands();
      out->argument_count = body.getNumArguments() + out->result_count;
      if (const std::optional<GpuLaunch> &gpu = record->gpu) {
        out->gpu = std::make_unique<plan::GpuKernelT>();
        out->gpu->module_ = gpu->module;
        out->gpu->blocks = gpu->blocks;
        out->gpu->threads = gpu->threads;
        out->gpu->shared_bytes = gpu->sharedBytes;
        out->gpu->argument_table = gpu->argumentTable;
        for (const TensorMap &map : gpu->tensorMaps)
          out->gpu->tensor_maps.push_back(tensorMap(map));
      }
      result_.kernels.push_back(std::move(out));
    }
    return success();
  }

  void addModules(const std::vector<ModuleRecord> &modules) {
    for (const ModuleRecord &module : modules) {
      auto out = std::make_unique<plan::KernelModuleT>();
      out->ptx = module.ptx;
      for (const auto &[architecture, bytes] : module.cubins) {
        auto cubin = std::make_unique<plan::CubinT>();
        cubin->architecture = architecture;
        cubin->bytes.assign(bytes.begin(), bytes.end());
        out->cubins.push_back(std::move(cubin));
      }
      result_.modules.push_back(std::move(out));
    }
  }

  void addPrograms() {
    for (auto program : module_.getOps<plan::ProgramOp>()) {
      auto out = std::make_unique<plan::ProgramT>();
      out->name = program.getSymName().str();
      out->inputs = named(program.getInputs(), program.getInputNames());
      out->outputs = named(program.getOutputs(), program.getOutputNames());
      for (Operation &op : program.getBody().front())
        out->instructions.push_back(instruction(op));
      result_.programs.push_back(std::move(out));
    }
  }

  plan::PlanT &plan() { return result_; }

  std::string finish() {
    flatbuffers::FlatBufferBuilder builder(1 << 20);
    builder.Finish(plan::Plan::Pack(builder, &result_), plan::PlanIdentifier());
    return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  }

private:
  std::vector<std::unique_ptr<plan::NamedSlotT>> named(ValueRange slots, ArrayAttr names) {
    std::vector<std::unique_ptr<plan::NamedSlotT>> result;
    for (auto [slot, name] : llvm::zip(slots, names)) {
      result.push_back(std::make_unique<plan::NamedSlotT>());
      result.back()->name = cast<StringAttr>(name).str();
      result.back()->slot = slots_.lookup(slot);
    }
    return result;
  }

  uint32_t layerIndex(Location loc) {
    auto [entry, isNew] = layers_.try_emplace(tape::layerName(loc), result_.layers.size());
    if (isNew)
      result_.layers.push_back(entry->first().str());
    return entry->second;
  }

  std::unique_ptr<plan::InstructionT> instruction(Operation &op) {
    auto out = std::make_unique<plan::InstructionT>();
    out->layer = layerIndex(op.getLoc());
    out->phase = phaseNumber(&op);
    auto number = [&](StringRef name) { return op.hasAttr(name) ? op.getAttrOfType<IntegerAttr>(name).getInt() : 0; };
    out->flops = number("flops");
    out->bytes_moved = number("bytes");
    if (Value scratch = cast<plan::InstructionOpInterface>(op).getScratch())
      out->scratch = slots_.lookup(scratch);
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](plan::LaunchOp launch) { out->body.Set(launchBody(launch)); })
        .Case([&](plan::MatmulOp matmul) { out->body.Set(matmulBody(matmul)); })
        .Case([&](plan::WindowOp window) { out->body.Set(windowBody(window)); })
        .Case([&](plan::AttentionOp attention) { out->body.Set(attentionBody(attention)); })
        .Case([&](plan::CopyOp copy) { out->body.Set(copyBody(copy)); });
    return out;
  }

  plan::LaunchT launchBody(plan::LaunchOp launch) {
    plan::LaunchT out;
    out.kernel = kernels_.lookup(launch.getKernel());
    for (Value slot : launch.getOperands())
      out.arguments.push_back(slots_.lookup(slot));
    return out;
  }

  plan::MatmulT matmulBody(plan::MatmulOp matmul) {
    plan::MatmulT out;
    out.a = slots_.lookup(matmul.getReads()[0]);
    out.b = slots_.lookup(matmul.getReads()[1]);
    out.c = slots_.lookup(matmul.getWrites()[0]);
    ArrayRef<int64_t> sizes = matmul.getSizes(), strides = matmul.getStrides(), batch = matmul.getBatch();
    if (auto epilogue = matmul.getEpilogue()) {
      out.epilogue = std::make_unique<plan::LaunchT>();
      out.epilogue->kernel = kernels_.lookup(*epilogue);
      out.epilogue->arguments.push_back(out.c);
      for (Value slot : matmul.getReads().drop_front(2))
        out.epilogue->arguments.push_back(slots_.lookup(slot));
      for (Value slot : matmul.getWrites())
        out.epilogue->arguments.push_back(slots_.lookup(slot));
    }
    out.bias = matmul.getBias();
    out.accumulate = matmul.getAccumulate();
    if (auto offsets = matmul.getOffsets()) {
      out.a_offset = (*offsets)[0];
      out.b_offset = (*offsets)[1];
      out.c_offset = (*offsets)[2];
    }
    StringRef triangle = matmul.getTriangle().value_or("");
    out.triangle = triangle == "result" ? plan::Triangle::Result : triangle == "lhs" ? plan::Triangle::A
                   : triangle.empty() ? plan::Triangle::None : plan::Triangle::ATransposed;
    out.m = sizes[0];
    out.n = sizes[1];
    out.k = sizes[2];
    out.a_row_stride = strides[0];
    out.a_column_stride = strides[1];
    out.b_row_stride = strides[2];
    out.b_column_stride = strides[3];
    out.c_row_stride = strides[4];
    out.c_column_stride = strides[5];
    for (size_t i = 0; i < batch.size(); i += 4)
      out.batch.push_back({batch[i], batch[i + 1], batch[i + 2], batch[i + 3]});
    return out;
  }

  plan::WindowT windowBody(plan::WindowOp window) {
    plan::WindowT out;
    out.function = windowFunction(window.getFunction());
    for (Value slot : window.getOperands())
      out.arguments.push_back(slots_.lookup(slot));
    int64_t *fields[] = {&out.batch,     &out.channels, &out.filters,  &out.height,  &out.width,    &out.kernel_height, &out.kernel_width,
                         &out.out_height, &out.out_width, &out.stride_y, &out.stride_x, &out.pad_top, &out.pad_left,      &out.parts};
    for (auto [field, size] : llvm::zip_equal(fields, window.getSizes()))
      *field = size;
    return out;
  }

  plan::AttentionT attentionBody(plan::AttentionOp attention) {
    plan::AttentionT out;
    out.backward = attention.getBackward();
    out.nondeterministic = attention.getNondeterministic();
    out.causal = attention.getCausal();
    out.scale = attention.getScale().convertToDouble();
    ArrayRef<int64_t> sizes = attention.getSizes(), places = attention.getPlaces();
    out.batch = sizes[0];
    out.heads = sizes[1];
    out.key_heads = sizes[2];
    out.tokens = sizes[3];
    out.head_size = sizes[4];
    auto reads = attention.getReads();
    if (auto dropout = attention.getDropout()) {
      out.dropout = std::make_unique<plan::AttentionDropoutT>();
      out.dropout->rate = dropout->convertToDouble();
      out.dropout->seed = slots_.lookup(reads[reads.size() - 2]);
      out.dropout->offset = slots_.lookup(reads.back());
      reads = reads.drop_back(2);
    }
    if (attention.getPadded()) {
      out.lengths = slots_.lookup(reads.back());
      reads = reads.drop_back();
    }
    SmallVector<Value> slots(reads);
    llvm::append_range(slots, attention.getWrites());
    auto lse = slots.begin() + 4; // both ways
    out.lse = slots_.lookup(*lse);
    slots.erase(lse);
    for (auto [i, slot] : llvm::enumerate(slots)) {
      ArrayRef<int64_t> place = places.slice(4 * i, 4);
      out.operands.push_back({slots_.lookup(slot), place[0], place[1], place[2], place[3]});
    }
    return out;
  }

  plan::CopyT copyBody(plan::CopyOp copy) {
    plan::CopyT out;
    out.source = slots_.lookup(copy.getReads()[0]);
    out.destination = slots_.lookup(copy.getWrites()[0]);
    out.bytes = tape::totalBytes({copy.getReads()[0].getDefiningOp<plan::SlotOp>().getType()});
    return out;
  }

  ModuleOp module_;
  plan::PlanT result_;
  llvm::DenseMap<Value, uint32_t> slots_;
  llvm::StringMap<uint32_t> kernels_, layers_;
};

} // namespace

FailureOr<std::string> writePlan(ModuleOp module, const std::vector<KernelRecord> &kernels, const PlanInfo &info) {
  PlanSerializer serializer(module);
  if (failed(serializer.addSlots()) || failed(serializer.addKernels(kernels)))
    return failure();
  serializer.addPrograms();
  serializer.addModules(info.modules);

  plan::PlanT &plan = serializer.plan();
  plan.format_version = static_cast<uint32_t>(plan::PlanFormat::Current);
  plan.compiler = "tapeout " TAPEOUT_VERSION;
  plan.options = info.options;
  plan.target = info.target;
  plan.optimizer = info.optimizer;
  plan.workspace_bytes = info.workspaceBytes;
  plan.model = std::make_unique<plan::ModelT>();
  plan.model->name = info.modelName;
  plan.model->task = static_cast<plan::Task>(info.task);
  plan.model->batch = info.batch;
  plan.model->context = info.context;
  plan.model->vocabulary = info.vocabulary;
  plan.model->ignore_index = info.ignoreIndex;
  plan.model->mask_token = info.maskToken;
  plan.arena_bytes = module->getAttrOfType<IntegerAttr>("plan.arena_bytes").getInt();
  plan.persistent_bytes = module->getAttrOfType<IntegerAttr>("plan.persistent_bytes").getInt();
  for (const auto &[name, value] : info.defaults) {
    plan.defaults.push_back(std::make_unique<plan::DefaultT>());
    plan.defaults.back()->name = name;
    plan.defaults.back()->value = value;
  }
  return serializer.finish();
}

} // namespace tapeout::codegen
