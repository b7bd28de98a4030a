// Products that GELU surrounds, on the tensor cores of a Hopper GPU: GELU and its slope of a biased product, and a
// product times such a slope with the sums of its columns. The product itself never lies in memory.
//
// A tile is 128 features x 160 tokens, with features as rows of the product: so a thread has parts of four sums of
// columns of the result only. A block stays for all of its tiles. It has one warpgroup that copies and two that
// compute, in turns: the tensor cores multiply for one group while the other one computes GELU and writes. The copying
// group fills a ring of stages, of 64 of the inner numbers each, by tensor maps.
#include "codegen/cuda/device/GeluProduct.h"
#include "codegen/cuda/device/Hopper.h"

using namespace hopper;
using namespace tapeout::codegen;

/// Set by the compiler.
extern "C" {
extern const GeluProductSizes tapeoutGeluProductSizes;
}
#define SIZES tapeoutGeluProductSizes

// Arrays live in registers, which have no addresses: loops over them are unrolled.
#define UNROLLED _Pragma("clang loop unroll(full)")

namespace {

constexpr int kGroups = kProductGroups, kStages = 4;
constexpr int kTokenBlocks = kProductTokens / 8; // columns of a tile, by 8
constexpr int kComputeRegisters = 232, kCopyRegisters = 40;

// Shared memory: stages of weights and tokens, a tile of results for each group, barriers. A tile is two boxes of 64
// features.
constexpr uint32_t kHalfOfWeights = 64 * kRowBytes, kWeightBytes = 2 * kHalfOfWeights; // 64 features
constexpr uint32_t kHalfOfTokens = kProductTokensBox.rows * kRowBytes, kStageBytes = kWeightBytes + 2 * kHalfOfTokens;
constexpr uint32_t kBoxBytes = kProductResultBox.rows * kRowBytes, kTileBytes = 2 * kBoxBytes;
constexpr uint32_t kTiles = kStages * kStageBytes, kBarriers = kTiles + kGroups * kTileBytes;
constexpr uint32_t kBytes = kBarriers + 8 * (2 * kStages + 2 * kGroups);

/// A barrier's phases are awaited in turn: the n-th use of it waits for parity n % 2.
struct Barriers {
  uint32_t full, empty;           // of the stages
  uint32_t slopeFull, slopeEmpty; // of the groups' tiles, where slopes lie first

  explicit Barriers(uint32_t at)
      : full(at), empty(at + 8 * kStages), slopeFull(at + 16 * kStages), slopeEmpty(slopeFull + 8 * kGroups) {
    if (threadIndex() == 0) {
      for (int i = 0; i < kStages; ++i) {
        initBarrier(full + 8 * i, 1);
        initBarrier(empty + 8 * i, 4); // warps of the group whose turn it is
      }
      for (int i = 0; i < kGroups; ++i) {
        initBarrier(slopeFull + 8 * i, 1);
        initBarrier(slopeEmpty + 8 * i, 1);
      }
      fenceBarrierInit();
    }
    syncBlock();
  }
  uint32_t fullOf(int step) const { return full + 8 * (step % kStages); }
  void waitFull(int step) const { wait(fullOf(step), (step / kStages) & 1); }
  void waitEmpty(int step) const { wait(empty + 8 * (step % kStages), ((step / kStages) & 1) ^ 1); }
  void release(int step) const { // by all warps of the group
    if (threadIndex() % kWarp == 0)
      arrive(empty + 8 * (step % kStages));
  }
};

TAPEOUT_DEVICE int steps() { return SIZES.inner / kProductInner; }

/// A tile of the result, and the how many-th of its block. Neighbours share tokens.
struct Tile {
  int index, number;

  static Tile first() { return {blockIndex(), 0}; }
  Tile after(int tiles) const { return {index + tiles * blockCount(), number + tiles}; }
  bool exists() const { return index < rowOfTiles() * ((SIZES.tokens + kProductTokens - 1) / kProductTokens); }
  int firstFeature() const { return index % rowOfTiles() * kProductFeatures; }
  int tokenTile() const { return index / rowOfTiles(); }
  int firstToken() const { return tokenTile() * kProductTokens; }
  int firstStep() const { return number * steps(); }
  int group() const { return number % kGroups; }
  int parity() const { return number / kGroups & 1; } // of its use of the group's tile

private:
  static int rowOfTiles() { return SIZES.features / kProductFeatures; }
};

/// One thread fills the stages. `ByInner`: weights are [inner, features], else [features, inner].
template <bool ByInner> TAPEOUT_DEVICE void copyOperands(const TensorMap &tokens, const TensorMap &weights,
                                                         uint32_t memory, const Barriers &barriers) {
  int step = 0;
  for (Tile tile = Tile::first(); tile.exists(); tile = tile.after(1)) {
    const int feature = tile.firstFeature(), token = tile.firstToken();
    for (int inner = 0; inner < SIZES.inner; inner += kProductInner, ++step) {
      barriers.waitEmpty(step);
      const uint32_t full = barriers.fullOf(step), at = memory + step % kStages * kStageBytes;
      arriveExpecting(full, kStageBytes);
      if constexpr (ByInner) {
        loadBox(at, weights, feature, inner, full);
        loadBox(at + kHalfOfWeights, weights, feature + kWeightsByInnerBox.columns, inner, full);
      } else {
        loadBox(at, weights, inner, feature, full);
      }
      loadBox(at + kWeightBytes, tokens, inner, token, full);
      loadBox(at + kWeightBytes + kHalfOfTokens, tokens, inner, token + kProductTokensBox.rows, full);
    }
  }
}

/// Another thread copies slopes to where their tile's results will lie.
TAPEOUT_DEVICE void copySlopes(const TensorMap &slope, uint32_t memory, const Barriers &barriers) {
  for (Tile tile = Tile::first(); tile.exists(); tile = tile.after(1)) {
    const int group = tile.group();
    const uint32_t full = barriers.slopeFull + 8 * group, at = memory + kTiles + group * kTileBytes;
    wait(barriers.slopeEmpty + 8 * group, tile.parity() ^ 1);
    arriveExpecting(full, kTileBytes);
    UNROLLED
    for (int half = 0; half < 2; ++half)
      loadBox(at + half * kBoxBytes, slope, tile.firstFeature() + half * kProductResultBox.columns, tile.firstToken(),
              full);
  }
}

/// A group's sums of a tile: of each 64 features, spread as a product spreads them.
struct Sums {
  float of[2][kProductTokens / 2];

  /// All tokens begin with a number of their feature: `first` has those of the thread's four features.
  TAPEOUT_DEVICE void begin(const float (&first)[4]) {
    UNROLLED
    for (int i = 0; i < kProductTokens; ++i)
      of[i / 80][i % 80] = first[i / 80 * 2 + i / 2 % 2];
  }
  /// Two neighbouring tokens of one feature: of the half `half`, the tokens' blocks `block` and the next of 8, place
  /// `i`. That is how storeTransposed wants its words.
  TAPEOUT_DEVICE float *pair(int half, int block, int i) { return &of[half][4 * (block + i / 2) + 2 * (i % 2)]; }
  /// The feature of such a pair.
  TAPEOUT_DEVICE static int feature(int half, int i) {
    return half * 64 + threadIndex() / kWarp % 4 * 16 + i % 2 * 8 + threadIndex() % kWarp / 4;
  }
};

/// Adds the products of one stage, as a batch.
template <typename Type, bool ByInner> TAPEOUT_DEVICE void multiplyStage(Sums &sums, uint32_t stage) {
  const uint64_t weights = describe(stage), tokens = describe(stage + kWeightBytes);
  beginProducts();
  UNROLLED
  for (int i = 0; i < kProductInner / 16; ++i)
    UNROLLED
  for (int half = 0; half < 2; ++half)
    multiplyAddWide<ByInner>(sums.of[half],
                             behind(weights, half * kHalfOfWeights + i * (ByInner ? 16 * kRowBytes : 32)),
                             behind(tokens, 32 * i), Type());
  endBatch();
}

/// Adds all products of a tile, in the group's turn. Before, the other group must have seen its stages arrive: the
/// parity of a barrier's phase does not tell it from the one behind the next.
template <typename Type, bool ByInner>
TAPEOUT_DEVICE void multiply(Sums &sums, const Tile &tile, uint32_t memory, const Barriers &barriers, int group) {
  waitForTurn(group);
  const int first = tile.firstStep(), last = first + steps() - 1;
  for (int step = first; step <= last; ++step) {
    barriers.waitFull(step);
    multiplyStage<Type, ByInner>(sums, memory + step % kStages * kStageBytes);
    waitForBatches<1>();
    if (step > first)
      barriers.release(step - 1);
  }
  giveTurn(1 - group);
  waitForBatches<0>();
  barriers.release(last);
}

/// Where a group's results lie before they are written.
class ResultTile {
public:
  TAPEOUT_DEVICE ResultTile(uint32_t memory, int group) : at_(memory + kTiles + group * kTileBytes), group_(group) {
    const int lane = threadIndex() % kWarp, warp = threadIndex() / kWarp % 4;
    ofThread_ = at_ + swizzled(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2);
  }
  /// Sixteen tokens' numbers, as storeTransposed has them, of 64 features.
  TAPEOUT_DEVICE uint32_t place(int half, int block) const {
    return ofThread_ + half * kBoxBytes + block * 8 * kRowBytes;
  }
  /// Until at most so many boxes that the group has begun to write have still to be read.
  template <int Unread> TAPEOUT_DEVICE void waitForReads() const {
    if (isFirst())
      waitForBoxReads<Unread>();
    syncGroup(group_);
  }
  /// Begins to write a box that the group has left here.
  TAPEOUT_DEVICE void write(int half, const TensorMap &map, const Tile &tile) const {
    fenceForProducts();
    syncGroup(group_);
    if (isFirst())
      storeBox(map, tile.firstFeature() + half * kProductResultBox.columns, tile.firstToken(), at_ + half * kBoxBytes);
  }
  /// The group's thread that writes.
  TAPEOUT_DEVICE static bool isFirst() { return threadIndex() % kWarpgroup == 0; }

private:
  const uint32_t at_;
  uint32_t ofThread_;
  const int group_;
};

struct ValueAndSlope {
  float value, slope;
};
/// x s, where s = (1 + tanh u) / 2 = 1 / (1 + e^-2u) and u = x (a + b x^2): the slope is s + x s (1 - s) 2 u'. The GPU's own
/// tanh is one instruction, but so far off (2^-11) that slopes of large negative x would not vanish.
struct TanhGelu {
  TAPEOUT_DEVICE static ValueAndSlope of(float x) {
    constexpr float a = 0.7978845608f, b = a * 0.044715f, minus2Log2E = -2.8853900818f;
    const float square = x * x;
    const float s = reciprocal(1 + exp2(x * multiplyAdd(square, minus2Log2E * b, minus2Log2E * a)));
    const float value = x * s;
    return {value, multiplyAdd(multiplyAdd(-value, s, value), multiplyAdd(square, 6 * b, 2 * a), s)};
  }
};
/// x P(x), where P is the normal distribution, (1 + erf(x / sqrt 2)) / 2. Abramowitz and Stegun, 26.2.17: P(-|x|) is
/// the density, which the slope needs, too, times a polynomial of 1 / (1 + p |x|); off by 7.5e-8.
struct ErfGelu {
  TAPEOUT_DEVICE static ValueAndSlope of(float x) {
    constexpr float halfLog2E = 0.7213475204f, log2OfSqrt2Pi = 1.3257480647f;
    const float density = exp2(multiplyAdd(x * x, -halfLog2E, -log2OfSqrt2Pi));
    const float t = reciprocal(multiplyAdd(__builtin_fabsf(x), 0.2316419f, 1.f));
    float series = multiplyAdd(1.330274429f, t, -1.821255978f);
    series = multiplyAdd(series, t, 1.781477937f);
    series = multiplyAdd(series, t, -0.356563782f);
    series = multiplyAdd(series, t, 0.319381530f);
    const float tail = density * (series * t), distribution = x < 0 ? tail : 1 - tail;
    return {x * distribution, multiplyAdd(x, density, distribution)};
  }
};

TAPEOUT_DEVICE float asFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }
TAPEOUT_DEVICE uint32_t asWord(float number) { return __builtin_bit_cast(uint32_t, number); }

/// What a group does with a tile's sums, which begin with the bias: GELU and its slope.
template <typename Type, typename Gelu> class GeluOfSums {
public:
  TAPEOUT_DEVICE GeluOfSums(const void *bias, const TensorMap &result, const TensorMap &slope)
      : bias_(static_cast<const uint16_t *>(bias)), result_(result), slope_(slope) {}

  TAPEOUT_DEVICE void begin(Sums &sums, const Tile &tile) const {
    float first[4];
    UNROLLED
    for (int i = 0; i < 4; ++i)
      first[i] = lowOf(bias_[tile.firstFeature() + Sums::feature(i / 2, i)], Type());
    sums.begin(first);
  }
  TAPEOUT_DEVICE void finish(Sums &sums, const Tile &tile, const ResultTile &results, const Barriers &) const {
    results.waitForReads<0>();
    UNROLLED
    for (int half = 0; half < 2; ++half) {
      // Without branches the assembler begins with more numbers than it has registers for.
      UNROLLED
      for (int first = 0; first < kTokenBlocks; first += kTokenBlocks / 2)
        if (tile.firstToken() + 8 * first < SIZES.tokens)
          storeSlopes(sums, half, first, results);
      results.write(half, slope_, tile);
    }
    UNROLLED
    for (int half = 0; half < 2; ++half) {
      results.waitForReads<1>(); // the other half's box may still be read
      UNROLLED
      for (int block = 0; block < kTokenBlocks; block += 2)
        storeTransposed(results.place(half, block),
                        {asWord(*sums.pair(half, block, 0)), asWord(*sums.pair(half, block, 1)),
                         asWord(*sums.pair(half, block, 2)), asWord(*sums.pair(half, block, 3))});
      results.write(half, result_, tile);
    }
  }

private:
  /// Of half of the tokens. Leaves GELU, rounded, in the first of each pair of sums.
  TAPEOUT_DEVICE static void storeSlopes(Sums &sums, int half, int firstBlock, const ResultTile &results) {
    UNROLLED
    for (int block = firstBlock; block < firstBlock + kTokenBlocks / 2; block += 2) {
      Words4 slopes;
      UNROLLED
      for (int i = 0; i < 4; ++i) {
        float *pair = sums.pair(half, block, i);
        const ValueAndSlope a = Gelu::of(pair[0]), b = Gelu::of(pair[1]);
        slopes.word[i] = pack(a.slope, b.slope, Type());
        pair[0] = asFloat(pack(a.value, b.value, Type()));
      }
      storeTransposed(results.place(half, block), slopes);
    }
  }

  const uint16_t *const bias_;
  const TensorMap &result_, &slope_;
};

/// Or: multiplies them by slopes, and sums the columns of the tile.
template <typename Type> class ScaledSums {
public:
  TAPEOUT_DEVICE ScaledSums(float *columnSums, const TensorMap &result) : columnSums_(columnSums), result_(result) {}

  TAPEOUT_DEVICE void begin(Sums &sums, const Tile &) const { sums.begin({0, 0, 0, 0}); }
  TAPEOUT_DEVICE void finish(Sums &sums, const Tile &tile, const ResultTile &results, const Barriers &barriers) const {
    wait(barriers.slopeFull + 8 * tile.group(), tile.parity());
    float ofColumns[4] = {0, 0, 0, 0};
    UNROLLED
    for (int half = 0; half < 2; ++half) {
      UNROLLED
      for (int block = 0; block < kTokenBlocks; block += 2) {
        Words4 words = loadTransposed(results.place(half, block)); // slopes, then results
        UNROLLED
        for (int i = 0; i < 4; ++i) {
          const float *pair = sums.pair(half, block, i);
          const float a = pair[0] * lowOf(words.word[i], Type()), b = pair[1] * highOf(words.word[i], Type());
          ofColumns[2 * half + i % 2] += a + b;
          words.word[i] = pack(a, b, Type());
        }
        storeTransposed(results.place(half, block), words);
      }
      results.write(half, result_, tile);
    }
    writeColumnSums(ofColumns, tile);
    if (ResultTile::isFirst()) {
      waitForBoxReads<0>();
      arrive(barriers.slopeEmpty + 8 * tile.group());
    }
  }

private:
  /// Four neighbouring threads have parts of the same four sums.
  TAPEOUT_DEVICE void writeColumnSums(const float (&sums)[4], const Tile &tile) const {
    const int lane = threadIndex() % kWarp;
    float *columns = columnSums_ + int64_t(tile.tokenTile()) * SIZES.features + tile.firstFeature();
    UNROLLED
    for (int i = 0; i < 4; ++i) {
      float sum = sums[i] + fromLane(sums[i], lane ^ 1);
      sum += fromLane(sum, lane ^ 2);
      if (lane % 4 == i)
        columns[Sums::feature(i / 2, i)] = sum;
    }
  }

  float *const columnSums_;
  const TensorMap &result_;
};

template <typename Type, bool ByInner, typename Epilogue>
TAPEOUT_DEVICE void compute(Epilogue epilogue, uint32_t memory, const Barriers &barriers, int group) {
  const ResultTile results(memory, group);
  if (group == 1)
    giveTurn(0);
  for (Tile tile = Tile::first().after(group); tile.exists(); tile = tile.after(kGroups)) {
    Sums sums;
    epilogue.begin(sums, tile);
    multiply<Type, ByInner>(sums, tile, memory, barriers, group);
    epilogue.finish(sums, tile, results, barriers);
  }
  if (ResultTile::isFirst())
    waitForBoxes();
}

/// `slope`: null, or what is copied for the epilogue.
template <typename Type, bool ByInner, typename Epilogue>
TAPEOUT_DEVICE void run(const TensorMap &tokens, const TensorMap &weights, const TensorMap *slope, Epilogue epilogue) {
  const uint32_t memory = sharedMemory();
  const Barriers barriers(memory + kBarriers);
  const int group = uniform(threadIndex() / kWarpgroup);
  if (group == kGroups) {
    giveRegisters<kCopyRegisters>();
    const int thread = threadIndex() % kWarpgroup;
    if (thread == 0)
      copyOperands<ByInner>(tokens, weights, memory, barriers);
    else if (slope && thread == kWarp)
      copySlopes(*slope, memory, barriers);
  } else {
    takeRegisters<kComputeRegisters>();
    compute<Type, ByInner>(epilogue, memory, barriers, group);
  }
}

} // namespace

// Pointers of all arguments, operands first, as of every kernel; then maps of the matrices among them, in their order,
// with the boxes of GeluProduct.h.
#define GELU_PRODUCT(name, Gelu, ByInner, Type)                                                                        \
  TAPEOUT_KERNEL gelu_product_##name(const void *, const void *, const void *bias, void *, void *, TensorMap tokens,   \
                                     TensorMap weights, TensorMap result, TensorMap slope) {                           \
    run<Type, ByInner>(tokens, weights, nullptr, GeluOfSums<Type, Gelu>(bias, result, slope));                         \
  }
#define KERNELS(Type, ByInner, suffix)                                                                                 \
  GELU_PRODUCT(tanh_##suffix, TanhGelu, ByInner, Type)                                                                 \
  GELU_PRODUCT(erf_##suffix, ErfGelu, ByInner, Type)                                                                   \
  TAPEOUT_KERNEL scaled_product_##suffix(const void *, const void *, const void *, void *, float *sums,                \
                                         TensorMap tokens, TensorMap weights, TensorMap slope, TensorMap result) {     \
    run<Type, ByInner>(tokens, weights, &slope, ScaledSums<Type>(sums, result));                                       \
  }
KERNELS(BFloat16, false, by_feature_bf16)
KERNELS(BFloat16, true, by_inner_bf16)
KERNELS(Float16, false, by_feature_f16)
KERNELS(Float16, true, by_inner_f16)

/// Dynamic shared memory of the kernels.
extern "C" {
extern const uint32_t tapeoutGeluProductBytes;
const uint32_t tapeoutGeluProductBytes = kBytes;
}
