// The gradient of softmax(scale * Q K^T) V for heads of 64 elements, on the tensor cores of a Hopper GPU. Two kernels,
// after FlashAttention (Dao et al., 2022): scores are computed again, tile by tile, and never lie in memory. One kernel
// takes rows of queries and sums over keys; the other takes rows of keys and sums over queries. So no two blocks add to
// one number, and every sum has one order: the same bits in every run, without the memory that an accumulator or the
// scores would need. It costs two products more than the five that one pass would take.
//
// A block has two warpgroups that compute and one that copies. Each of the two owns 64 rows (keys; queries) whose
// operands stay in shared memory for the whole block of work; the third streams tiles of 64 of the others through a
// ring. A group keeps its sums in registers. Its products and the elements of the next tile overlap: while scores and
// the first sum are multiplied, it computes gradients of scores, and while those are multiplied, the next
// probabilities. The next tile may be the first one for the group's next 64 rows. No product is in flight at the end of
// a turn of the loop, since ptxas would else wait after each.
//
// A block works through pairs of one long and one short row of tiles, which causal attention makes equal.
#include "codegen/cuda/device/AttentionGradient.h"
#include "codegen/cuda/device/Hopper.h"

using namespace hopper;
using namespace tapeout::codegen;

/// Set by the compiler.
extern "C" {
extern const AttentionSizes tapeoutAttentionSizes;
}
#define SIZES tapeoutAttentionSizes

// Arrays live in registers, which have no addresses: loops over them are unrolled.
#define UNROLLED _Pragma("clang loop unroll(full)")

namespace {

constexpr float kLog2E = 1.4426950408889634f;
constexpr int kTile = kAttentionTile, kGroups = kAttentionGroups, kRowsOfBlock = kTile * kGroups;
constexpr uint32_t kTileBytes = kTile * kRowBytes;
constexpr int kStages = 8; // of the ring
constexpr int kComputeRegisters = 232, kCopyRegisters = 40;

TAPEOUT_DEVICE int tiles() { return (SIZES.tokens + kTile - 1) / kTile; }
/// With the tile behind the last one that the second group has where tiles are odd: rows of zeros, of which nothing is
/// written. A group without work would wait for the tiles of its next item while this one's place is not free for them.
TAPEOUT_DEVICE int rowTiles() { return (tiles() + kGroups - 1) / kGroups * kGroups; }

/// The work of all blocks: pairs of blocks of rows of one head.
struct Work {
  int rowBlocks = (SIZES.tokens + kRowsOfBlock - 1) / kRowsOfBlock, pairs = (rowBlocks + 1) / 2;
  int total = pairs * SIZES.batch * SIZES.heads;
  int headOf(int pair) const { return pair / pairs; } // of all of the batch
  int countOf(int pair) const { return 2 * (pair % pairs) + 1 == rowBlocks ? 1 : 2; }
  int blockOf(int pair, int half) const { return half ? rowBlocks - 1 - pair % pairs : pair % pairs; }
};

/// A barrier's phases are awaited in turn: the n-th use of it waits for parity n % 2.
struct Ring {
  uint32_t full, empty; // barriers of the stages
  uint32_t barrierOf(uint32_t of, int tile) const { return of + 8 * (tile % kStages); }
  void waitFull(int tile) const {
    wait(barrierOf(full, tile), (tile / kStages) & 1);
    fenceForProducts();
  }
  void waitEmpty(int tile) const { wait(barrierOf(empty, tile), ((tile / kStages) & 1) ^ 1); }
  void release(int tile) const { // by all warps that compute
    syncWarp();
    if (threadIndex() % kWarp == 0)
      arrive(barrierOf(empty, tile));
  }
  /// A tile that this group has no use for.
  void skip(int tile) const {
    waitFull(tile);
    release(tile);
  }
};

constexpr uint32_t kBarrierBytes = 256;

struct Barriers {
  Ring ring;
  uint32_t ownEmpty; // of the two places of a block's own rows

  explicit Barriers(uint32_t at) : ring{at, at + 8 * kStages}, ownEmpty(at + 16 * kStages) {
    if (threadIndex() == 0) {
      for (int i = 0; i < kStages; ++i) {
        initBarrier(ring.full + 8 * i, kWarpgroup);
        initBarrier(ring.empty + 8 * i, 4 * kGroups);
      }
      for (int i = 0; i < 2; ++i)
        initBarrier(ownEmpty + 8 * i, 4 * kGroups);
      fenceBarrierInit();
    }
    syncBlock();
  }
  void waitOwnEmpty(int item) const { wait(ownEmpty + 8 * (item & 1), ((item >> 1) & 1) ^ 1); }
  void releaseOwn(int place) const {
    syncWarp();
    if (threadIndex() % kWarp == 0)
      arrive(ownEmpty + 8 * place);
  }
};

/// What a group does: sums over tiles of the ring for 64 rows of a head. In few numbers, since registers are scarce.
struct Item {
  int rows = 0; // the head times the row tiles of a head, and the tile of its rows; then a bit: which place they lie at
  int first = 0, last = -1; // tiles of the ring

  TAPEOUT_DEVICE int place() const { return rows & 1; }
  TAPEOUT_DEVICE int head() const { return rows / 2 / rowTiles(); }
  TAPEOUT_DEVICE int rowTile() const { return rows / 2 % rowTiles(); }
};

/// The items of a group, in the order in which tiles are copied: `Seen` says which tiles are copied for a block of
/// rows, and which of them its rows see. The group skips others.
template <typename Seen> class Items {
public:
  TAPEOUT_DEVICE Items(const Barriers &barriers, int group)
      : barriers_(barriers), group_(group), position_(2 * blockIndex()) {}

  /// From one item, at first an empty one, to the next. False: there are no more.
  TAPEOUT_DEVICE bool next(const Item &item, Item &following) {
    const Work work;
    skip(item.last + 1, tile_);
    if (position_ / 2 >= work.total)
      return false;
    const int pair = position_ / 2, block = work.blockOf(pair, position_ % 2), rowTile = kGroups * block + group_;
    position_ = position_ % 2 + 1 < work.countOf(pair) ? position_ + 1 : 2 * (pair + blockCount());
    place_ ^= 1;
    const int begin = Seen::beginOf(block), first = tile_ - begin;
    const int from = Seen::beginOfRow(rowTile), to = Seen::endOfRow(rowTile);
    tile_ += Seen::endOf(block) - begin;
    skip(first + begin, first + from);
    following = {2 * (work.headOf(pair) * rowTiles() + rowTile) + place_, first + from, first + to - 1};
    return true;
  }

private:
  TAPEOUT_DEVICE void skip(int from, int to) const {
    for (int tile = from; tile < to; ++tile)
      barriers_.ring.skip(tile);
  }

  const Barriers &barriers_;
  const int group_;
  int position_;             // twice the pair, and its half
  int place_ = 1, tile_ = 0; // of the last item; behind its tiles
};

/// The rows of one head of a tensor, for a thread of those that copy: 8 of them take the pieces of a row.
class Rows {
public:
  Rows(const void *pointer, AttentionTensor tensor, int head) {
    const AttentionPlace &place = SIZES.places[tensor];
    int64_t first =
        place.offset + head / SIZES.heads * place.batch + head % SIZES.heads * place.head + threadIndex() % 8 * 8;
    first_ = static_cast<const char *>(pointer) + 2 * first;
    rowBytes_ = 2 * place.token;
  }
  /// 64 rows; zeros behind the last token.
  void copyTile(uint32_t to, int firstRow) const {
    int row = threadIndex() % kWarpgroup / 8;
    to += swizzled(row, threadIndex() % 8);
    row += firstRow;
    UNROLLED
    for (int i = 0; i < 4; ++i, row += 16) {
      bool exists = row < SIZES.tokens;
      copy16(to + i * 16 * kRowBytes, first_ + (exists ? row : 0) * rowBytes_, exists);
    }
  }

private:
  const char *first_;
  int64_t rowBytes_;
};

/// Writes a group's 64 x 64 sums, times a factor, as rows of a tensor, through a tile of shared memory that is its own.
template <typename Type> TAPEOUT_DEVICE void writeTile(const float *sums, float factor, uint32_t through, void *pointer,
                                                       AttentionTensor tensor, int head, int firstRow) {
  const int lane = threadIndex() % kWarp, warp = threadIndex() / kWarp % 4, row = 16 * warp + lane / 4;
  UNROLLED
  for (int i = 0; i < 16; ++i) { // pairs of neighbouring columns
    const int r = row + i % 2 * 8;
    bool exists = firstRow + r < SIZES.tokens; // what is behind the last token shall not count in sums of columns
    storeShared(through + swizzled(r, i / 2) + lane % 4 * 4,
                exists ? pack(sums[2 * i] * factor, sums[2 * i + 1] * factor, Type()) : 0);
  }
  syncWarp(); // a warp writes its own rows
  const AttentionPlace &place = SIZES.places[tensor];
  int64_t first = place.offset + head / SIZES.heads * place.batch + head % SIZES.heads * place.head + lane % 8 * 8;
  UNROLLED
  for (int i = 0; i < 4; ++i) {
    int r = 16 * warp + 4 * i + lane / 8;
    if (firstRow + r < SIZES.tokens)
      storeGlobal16(static_cast<char *>(pointer) + 2 * (first + (firstRow + r) * place.token),
                    loadShared16(through + swizzled(r, lane % 8)));
  }
}

TAPEOUT_DEVICE uint32_t twoOnes(BFloat16) { return 0x3F803F80; }
TAPEOUT_DEVICE uint32_t twoOnes(Float16) { return 0x3C003C00; }

/// The sums of the columns of the tile that writeTile has left: rows of ones, times the tile.
template <typename Type> TAPEOUT_DEVICE void writeColumnSums(uint32_t tile, int group, float *pointer,
                                                             AttentionTensor tensor, int head, int rowTile) {
  const uint32_t ones[4] = {twoOnes(Type()), twoOnes(Type()), twoOnes(Type()), twoOnes(Type())};
  float sums[32];
  UNROLLED
  for (float &sum : sums)
    sum = 0;
  fenceForProducts();
  syncGroup(group);
  beginProducts();
  UNROLLED
  for (int i = 0; i < 4; ++i)
    multiplyAddColumns(sums, ones, behind(describe(tile), 16 * kRowBytes * i), Type());
  endBatch();
  waitForBatches<0>();
  if (const int thread = threadIndex() % kWarpgroup; thread < 4 && rowTile < tiles()) { // has the first row
    const AttentionPlace &place = SIZES.places[tensor];
    float *to = pointer + place.offset + head / SIZES.heads * place.batch + rowTile * place.token +
                head % SIZES.heads * place.head;
    UNROLLED
    for (int j = 0; j < 8; ++j)
      storeGlobal8(to + 8 * j + 2 * thread, sums[4 * j], sums[4 * j + 1]);
  }
}

/// Four products of 16 of the 64 columns: d = rows of `a` times rows of `b`.
template <typename Type> TAPEOUT_DEVICE void multiplyTiles(float *d, uint64_t a, uint64_t b) {
  UNROLLED
  for (int i = 0; i < 4; ++i)
    multiplyRows(d, behind(a, 32 * i), behind(b, 32 * i), i > 0, Type());
  endBatch();
}
/// d += a b; `a` has 64 columns, in registers.
template <typename Type> TAPEOUT_DEVICE void addProduct(float *d, const uint32_t *a, uint64_t b) {
  UNROLLED
  for (int i = 0; i < 4; ++i)
    multiplyAddColumns(d, a + 4 * i, behind(b, 16 * kRowBytes * i), Type());
  endBatch();
}

/// Takes away the probabilities of a tile above its diagonal or behind the last token. Not the scores: they are where
/// products put them, and the assembler wants registers of its own for what else is written there.
template <bool RowsAreKeys> TAPEOUT_DEVICE void hide(float *probabilities, bool diagonal, int tokensOfTile) {
  const int lane = threadIndex() % kWarp, warp = threadIndex() / kWarp % 4;
  UNROLLED
  for (int i = 0; i < 32; ++i) {
    int row = 16 * warp + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    int query = RowsAreKeys ? column : row, key = RowsAreKeys ? row : column;
    if ((diagonal && key > query) || key >= tokensOfTile)
      probabilities[i] = 0;
  }
}

// The rows' numbers that the first kernel leaves for the second: log-sum-exp in powers of 2, and the sums of gradient
// times result: f32 [2, batch * heads, tokens].
TAPEOUT_DEVICE int64_t rowNumbers(int which, int head) {
  return (int64_t(which) * SIZES.batch * SIZES.heads + head) * SIZES.tokens;
}

// Shared memory: both places of own rows, the ring, its row numbers, barriers.
constexpr uint32_t kQueryOwn = 3 * kGroups * kTileBytes;                     // query, gradient, result
constexpr uint32_t kQueryNumbers = 2 * kQueryOwn + 2 * kStages * kTileBytes; // log-sum-exp of own rows, twice
constexpr uint32_t kQueryBarriers = kQueryNumbers + 2 * kRowsOfBlock * 4;
constexpr uint32_t kQueryBytes = kQueryBarriers + kBarrierBytes;

constexpr uint32_t kKeyOwn = 2 * kGroups * kTileBytes; // key, value
// Of each stage 64 log-sum-exps and 64 sums, in the order in which a thread reads 16 of them: t % 4, then columns. 80
// instead of 64 keep the four from each other's banks.
constexpr uint32_t kNumbersOfStage = 2 * 80 * 4;
constexpr uint32_t kKeyNumbers = 2 * kKeyOwn + 2 * kStages * kTileBytes;
constexpr uint32_t kKeyBarriers = kKeyNumbers + kStages * kNumbersOfStage;
constexpr uint32_t kKeyBytes = kKeyBarriers + kBarrierBytes;

struct QueryArguments {
  const void *query, *key, *value, *result, *resultGradient;
  const float *lse;
  void *queryGradient;
  float *numbers, *sums; // sums: null, or those of the columns of each tile
};

/// Tiles of keys that queries see.
struct SeenKeys {
  TAPEOUT_DEVICE static int beginOf(int) { return 0; }
  TAPEOUT_DEVICE static int endOf(int block) { return endOfRow(kGroups * block + kGroups - 1); }
  TAPEOUT_DEVICE static int beginOfRow(int) { return 0; }
  TAPEOUT_DEVICE static int endOfRow(int rowTile) {
    return SIZES.causal && rowTile + 1 < tiles() ? rowTile + 1 : tiles();
  }
};

TAPEOUT_DEVICE void copyForQueries(const QueryArguments &p, uint32_t memory, const Barriers &barriers) {
  const Work work;
  int tile = 0, item = 0;
  for (int pair = blockIndex(); pair < work.total; pair += blockCount()) {
    const int head = work.headOf(pair), thread = threadIndex() % kWarpgroup;
    const Rows keys(p.key, kKey, head), values(p.value, kValue, head);
    for (int half = 0; half < work.countOf(pair); ++half, ++item) {
      const int block = work.blockOf(pair, half), first = block * kRowsOfBlock, count = SeenKeys::endOf(block);
      barriers.waitOwnEmpty(item);
      const uint32_t own = memory + (item & 1) * kQueryOwn;
      {
        const Rows queries(p.query, kQuery, head), gradients(p.resultGradient, kResultGradient, head),
            results(p.result, kResult, head);
        UNROLLED
        for (int g = 0; g < kGroups; ++g) {
          queries.copyTile(own + g * kTileBytes, first + g * kTile);
          gradients.copyTile(own + (kGroups + g) * kTileBytes, first + g * kTile);
          results.copyTile(own + (2 * kGroups + g) * kTileBytes, first + g * kTile);
        }
        static_assert(kRowsOfBlock == kWarpgroup, "one row for each thread");
        bool exists = first + thread < SIZES.tokens;
        copy4(memory + kQueryNumbers + ((item & 1) * kRowsOfBlock + thread) * 4,
              p.lse + int64_t(head) * SIZES.tokens + (exists ? first + thread : 0), exists);
      }
      for (int i = 0; i < count; ++i, ++tile) {
        barriers.ring.waitEmpty(tile);
        const uint32_t stage = memory + 2 * kQueryOwn + tile % kStages * 2 * kTileBytes;
        keys.copyTile(stage, i * kTile);
        values.copyTile(stage + kTileBytes, i * kTile);
        arriveAfterCopies(barriers.ring.barrierOf(barriers.ring.full, tile)); // of the own rows, too
      }
    }
  }
  waitForCopies();
}

/// Sums over keys for 64 queries.
template <typename Type> class QueryRows {
public:
  TAPEOUT_DEVICE QueryRows(const Ring &ring, uint32_t memory) : ring_(ring), keys_(describe(memory + 2 * kQueryOwn)) {
    clear();
  }
  TAPEOUT_DEVICE void clear() {
    UNROLLED
    for (float &sum : sums)
      sum = 0;
  }

  TAPEOUT_DEVICE void start(int tile, uint32_t own) {
    ring_.waitFull(tile);
    beginProducts();
    multiplyScores(tile, own);
    multiplyGradients(tile, own);
    waitForBatches<0>();
  }
  /// Log-sum-exps of the thread's two rows are needed for probabilities, sums of gradient times result for what
  /// follows.
  TAPEOUT_DEVICE void computeProbabilities(bool diagonal, int tokensOfTile, const float (&lse)[2]) {
    UNROLLED
    for (int i = 0; i < 32; ++i)
      probabilities_[i] = exp2(multiplyAdd(scores_[i], SIZES.scale * kLog2E, -lse[i % 4 / 2]));
    if (diagonal || tokensOfTile < kTile)
      hide<false>(probabilities_, diagonal, tokensOfTile);
  }
  /// Adds what tile `tile` gives, while scores and probabilities of the next tile come to be, for the queries at
  /// `nextOwn`.
  template <bool Last, typename Next> TAPEOUT_DEVICE void step(int tile, const float (&gradientSums)[2], int next,
                                                               uint32_t nextOwn, Next computeNextProbabilities) {
    if constexpr (!Last) {
      ring_.waitFull(next);
      beginProducts();
      multiplyScores(next, nextOwn);
    }
    uint32_t ofScores[16];
    UNROLLED
    for (int i = 0; i < 16; ++i) {
      float sum = gradientSums[i % 2];
      ofScores[i] = pack(probabilities_[2 * i] * (gradientsOfProbabilities_[2 * i] - sum),
                         probabilities_[2 * i + 1] * (gradientsOfProbabilities_[2 * i + 1] - sum), Type());
    }
    beginProducts();
    addProduct<Type>(sums, ofScores, behind(keys_, tile % kStages * 2 * kTileBytes));
    if constexpr (!Last) {
      multiplyGradients(next, nextOwn);
      waitForBatches<2>();
      computeNextProbabilities();
    }
    waitForBatches<0>();
    ring_.release(tile);
  }

  float sums[32];

private:
  TAPEOUT_DEVICE void multiplyScores(int tile, uint32_t own) {
    multiplyTiles<Type>(scores_, describe(own), behind(keys_, tile % kStages * 2 * kTileBytes));
  }
  TAPEOUT_DEVICE void multiplyGradients(int tile, uint32_t own) {
    multiplyTiles<Type>(gradientsOfProbabilities_, describe(own + kGroups * kTileBytes),
                        behind(keys_, (tile % kStages * 2 + 1) * kTileBytes));
  }

  const Ring &ring_;
  const uint64_t keys_;
  float scores_[32], gradientsOfProbabilities_[32], probabilities_[32];
};

/// Two neighbouring threads sum gradient times result of one row of the group's 64.
template <typename Type> TAPEOUT_DEVICE float gradientSum(uint32_t gradients, uint32_t results) {
  const int row = threadIndex() % kWarpgroup / 2;
  float sum = 0;
  UNROLLED
  for (int i = 0; i < 4; ++i) {
    uint32_t at = swizzled(row, threadIndex() % 2 * 4 + i);
    Words4 g = loadShared16(gradients + at), r = loadShared16(results + at);
    UNROLLED
    for (int w = 0; w < 4; ++w) {
      sum = multiplyAdd(lowOf(g.word[w], Type()), lowOf(r.word[w], Type()), sum);
      sum = multiplyAdd(highOf(g.word[w], Type()), highOf(r.word[w], Type()), sum);
    }
  }
  return sum + fromNeighbour(sum);
}

/// Of each of the thread's two rows of a tile: log-sum-exp in powers of 2, and the sum of gradient times result.
struct QueryNumbers {
  float lse[2], gradientSums[2];
};

/// The own rows of the item have arrived. Leaves the numbers for the kernel of the keys.
template <typename Type>
TAPEOUT_DEVICE QueryNumbers numbersOf(const Item &item, uint32_t memory, uint32_t own, int group, float *numbers) {
  const int thread = threadIndex() % kWarpgroup, row = item.rowTile() * kTile + thread / 2;
  float sum = gradientSum<Type>(own + kGroups * kTileBytes, own + 2 * kGroups * kTileBytes);
  float lse =
      kLog2E * loadFloat(memory + kQueryNumbers + (item.place() * kRowsOfBlock + group * kTile + thread / 2) * 4);
  if (row < SIZES.tokens && thread % 2 == 0) {
    numbers[rowNumbers(0, item.head()) + row] = lse;
    numbers[rowNumbers(1, item.head()) + row] = sum;
  }
  const int source = thread % kWarp / 4 * 2; // two threads have each of the warp's 16 rows
  return {{fromLane(lse, source), fromLane(lse, source + 16)}, {fromLane(sum, source), fromLane(sum, source + 16)}};
}

template <typename Type, bool Sums>
TAPEOUT_DEVICE void computeForQueries(const QueryArguments &p, uint32_t memory, const Barriers &barriers, int group) {
  const Ring &ring = barriers.ring;
  auto ownOf = [&](const Item &item) { return memory + item.place() * kQueryOwn + group * kTileBytes; };
  Items<SeenKeys> items(barriers, group);
  Item item;
  if (!items.next({}, item))
    return;
  QueryRows<Type> rows(ring, memory);
  rows.start(item.first, ownOf(item));
  QueryNumbers numbers = numbersOf<Type>(item, memory, ownOf(item), group, p.numbers);
  auto probabilities = [&](const Item &of, int tile, const QueryNumbers &ofRows) {
    int keyTile = tile - of.first; // a row of queries sees the first key
    rows.computeProbabilities(SIZES.causal && keyTile == of.rowTile(), SIZES.tokens - keyTile * kTile, ofRows.lse);
  };
  probabilities(item, item.first, numbers);
  for (bool more = true; more;) {
    for (int tile = item.first; tile < item.last; ++tile)
      rows.template step<false>(tile, numbers.gradientSums, tile + 1, ownOf(item),
                                [&] { probabilities(item, tile + 1, numbers); });
    Item following;
    QueryNumbers followingNumbers;
    more = items.next(item, following);
    if (more) {
      ring.waitFull(following.first);
      followingNumbers = numbersOf<Type>(following, memory, ownOf(following), group, p.numbers);
      rows.template step<false>(item.last, numbers.gradientSums, following.first, ownOf(following),
                                [&] { probabilities(following, following.first, followingNumbers); });
    } else {
      rows.template step<true>(item.last, numbers.gradientSums, 0, 0, [] {});
    }
    syncGroup(group);
    const uint32_t through = ownOf(item) + 2 * kGroups * kTileBytes;
    writeTile<Type>(rows.sums, SIZES.scale, through, p.queryGradient, kQueryGradient, item.head(),
                    item.rowTile() * kTile);
    if constexpr (Sums)
      writeColumnSums<Type>(through, group, p.sums, kQuerySums, item.head(), item.rowTile());
    barriers.releaseOwn(item.place());
    rows.clear();
    if (more) {
      item = following;
      numbers = followingNumbers;
    }
  }
}

struct KeyArguments {
  const void *query, *key, *value, *resultGradient;
  const float *numbers;
  void *keyGradient, *valueGradient;
  float *keySums, *valueSums; // null, or those of the columns of each tile
};

/// Tiles of queries that see keys.
struct SeenQueries {
  TAPEOUT_DEVICE static int beginOf(int block) { return beginOfRow(kGroups * block); }
  TAPEOUT_DEVICE static int endOf(int) { return tiles(); }
  TAPEOUT_DEVICE static int beginOfRow(int rowTile) {
    return !SIZES.causal ? 0 : rowTile < tiles() ? rowTile : tiles() - 1;
  }
  TAPEOUT_DEVICE static int endOfRow(int) { return tiles(); }
};

TAPEOUT_DEVICE void copyForKeys(const KeyArguments &p, uint32_t memory, const Barriers &barriers) {
  const Work work;
  const int thread = threadIndex() % kWarpgroup, which = thread / kTile, column = thread % kTile;
  const uint32_t numberAt = which * 80 + column % 8 / 2 * 20 + column / 8 * 2 + column % 2;
  int tile = 0, item = 0;
  for (int pair = blockIndex(); pair < work.total; pair += blockCount()) {
    const int head = work.headOf(pair);
    const Rows queries(p.query, kQuery, head), gradients(p.resultGradient, kResultGradient, head);
    const float *numbers = p.numbers + rowNumbers(which, head);
    for (int half = 0; half < work.countOf(pair); ++half, ++item) {
      const int block = work.blockOf(pair, half);
      barriers.waitOwnEmpty(item);
      const uint32_t own = memory + (item & 1) * kKeyOwn;
      {
        const Rows keys(p.key, kKey, head), values(p.value, kValue, head);
        UNROLLED
        for (int g = 0; g < kGroups; ++g) {
          keys.copyTile(own + g * kTileBytes, (kGroups * block + g) * kTile);
          values.copyTile(own + (kGroups + g) * kTileBytes, (kGroups * block + g) * kTile);
        }
      }
      for (int i = SeenQueries::beginOf(block); i < tiles(); ++i, ++tile) {
        barriers.ring.waitEmpty(tile);
        const uint32_t stage = memory + 2 * kKeyOwn + tile % kStages * 2 * kTileBytes;
        queries.copyTile(stage, i * kTile);
        gradients.copyTile(stage + kTileBytes, i * kTile);
        // Rows of zeros behind the last token, where probabilities are 1, give nothing.
        const int row = i * kTile + column;
        copy4(memory + kKeyNumbers + tile % kStages * kNumbersOfStage + numberAt * 4,
              numbers + (row < SIZES.tokens ? row : 0), row < SIZES.tokens);
        arriveAfterCopies(barriers.ring.barrierOf(barriers.ring.full, tile));
      }
    }
  }
  waitForCopies();
}

/// Sums over queries for 64 keys.
template <typename Type> class KeyRows {
public:
  TAPEOUT_DEVICE KeyRows(const Ring &ring, uint32_t memory)
      : ring_(ring), queries_(describe(memory + 2 * kKeyOwn)),
        numbers_(memory + kKeyNumbers + threadIndex() % 4 * 20 * 4) {
    clear();
  }
  TAPEOUT_DEVICE void clear() {
    UNROLLED
    for (int i = 0; i < 32; ++i)
      keySums[i] = valueSums[i] = 0;
  }

  TAPEOUT_DEVICE void start(int tile, uint32_t own) {
    ring_.waitFull(tile);
    beginProducts();
    multiplyScores(tile, own);
    multiplyGradients(tile, own);
    waitForBatches<0>();
    loadNumbers(tile, 0);
    computeProbabilities(SIZES.causal);
  }
  /// Which tile a step prepares besides: one for the same keys, the first one for the next keys, none.
  enum Next { kSameKeys, kNextKeys, kNone };
  /// Adds what tile `tile` gives, while scores and probabilities of the next tile come to be, for the keys at
  /// `nextOwn`.
  template <Next Kind> TAPEOUT_DEVICE void step(int tile, int next, uint32_t nextOwn) {
    constexpr bool Last = Kind == kNone;
    if constexpr (!Last)
      ring_.waitFull(next);
    loadNumbers(tile, 1);
    beginProducts();
    if constexpr (!Last)
      multiplyScores(next, nextOwn);
    addProduct<Type>(valueSums, rounded_, behind(queries_, (tile % kStages * 2 + 1) * kTileBytes));
    uint32_t ofScores[16];
    UNROLLED
    for (int i = 0; i < 16; ++i)
      ofScores[i] =
          pack(probabilities_[2 * i] * (gradientsOfProbabilities_[2 * i] - number(2 * i)),
               probabilities_[2 * i + 1] * (gradientsOfProbabilities_[2 * i + 1] - number(2 * i + 1)), Type());
    if constexpr (!Last)
      loadNumbers(next, 0); // before the products, behind which they would queue
    beginProducts();
    if constexpr (!Last)
      multiplyGradients(next, nextOwn);
    addProduct<Type>(keySums, ofScores, behind(queries_, tile % kStages * 2 * kTileBytes));
    if constexpr (!Last) {
      waitForBatches<2>();
      computeProbabilities(/*diagonal=*/Kind == kNextKeys && SIZES.causal);
    }
    waitForBatches<0>();
    ring_.release(tile);
  }

  float keySums[32], valueSums[32];

private:
  TAPEOUT_DEVICE void multiplyScores(int tile, uint32_t own) {
    multiplyTiles<Type>(scores_, describe(own), behind(queries_, tile % kStages * 2 * kTileBytes));
  }
  TAPEOUT_DEVICE void multiplyGradients(int tile, uint32_t own) {
    multiplyTiles<Type>(gradientsOfProbabilities_, describe(own + kGroups * kTileBytes),
                        behind(queries_, (tile % kStages * 2 + 1) * kTileBytes));
  }
  TAPEOUT_DEVICE void loadNumbers(int tile, int which) {
    UNROLLED
    for (int i = 0; i < 4; ++i)
      loaded_[i] = loadFloats4(numbers_ + tile % kStages * kNumbersOfStage + which * 80 * 4 + i * 16);
  }
  /// Of the column of element i of a tile.
  TAPEOUT_DEVICE float number(int i) const { return loaded_[i / 8].value[i / 4 % 2 * 2 + i % 2]; }
  TAPEOUT_DEVICE void computeProbabilities(bool diagonal) {
    UNROLLED
    for (int i = 0; i < 32; ++i)
      probabilities_[i] = exp2(multiplyAdd(scores_[i], SIZES.scale * kLog2E, -number(i)));
    if (diagonal)
      hide<true>(probabilities_, true, kTile);
    UNROLLED
    for (int i = 0; i < 16; ++i)
      rounded_[i] = pack(probabilities_[2 * i], probabilities_[2 * i + 1], Type());
  }

  const Ring &ring_;
  const uint64_t queries_;
  const uint32_t numbers_;
  float scores_[32], gradientsOfProbabilities_[32], probabilities_[32];
  uint32_t rounded_[16];
  Floats4 loaded_[4];
};

template <typename Type, bool Sums>
TAPEOUT_DEVICE void computeForKeys(const KeyArguments &p, uint32_t memory, const Barriers &barriers, int group) {
  auto ownOf = [&](const Item &item) { return memory + item.place() * kKeyOwn + group * kTileBytes; };
  Items<SeenQueries> items(barriers, group);
  Item item;
  if (!items.next({}, item))
    return;
  using Rows = KeyRows<Type>;
  Rows rows(barriers.ring, memory);
  rows.start(item.first, ownOf(item));
  for (bool more = true; more;) {
    for (int tile = item.first; tile < item.last; ++tile)
      rows.template step<Rows::kSameKeys>(tile, tile + 1, ownOf(item));
    Item following;
    more = items.next(item, following);
    if (more)
      rows.template step<Rows::kNextKeys>(item.last, following.first, ownOf(following));
    else
      rows.template step<Rows::kNone>(item.last, 0, 0);
    syncGroup(group);
    const uint32_t own = ownOf(item);
    writeTile<Type>(rows.keySums, SIZES.scale, own, p.keyGradient, kKeyGradient, item.head(), item.rowTile() * kTile);
    writeTile<Type>(rows.valueSums, 1, own + kGroups * kTileBytes, p.valueGradient, kValueGradient, item.head(),
                    item.rowTile() * kTile);
    if constexpr (Sums) {
      writeColumnSums<Type>(own, group, p.keySums, kKeySums, item.head(), item.rowTile());
      writeColumnSums<Type>(own + kGroups * kTileBytes, group, p.valueSums, kValueSums, item.head(), item.rowTile());
    }
    barriers.releaseOwn(item.place());
    rows.clear();
    if (more)
      item = following;
  }
}

template <typename Type, bool Sums> TAPEOUT_DEVICE void queryGradient(const QueryArguments &p) {
  const uint32_t memory = sharedMemory();
  const Barriers barriers(memory + kQueryBarriers);
  const int group = uniform(threadIndex() / kWarpgroup);
  if (group == kGroups) {
    giveRegisters<kCopyRegisters>();
    copyForQueries(p, memory, barriers);
  } else {
    takeRegisters<kComputeRegisters>();
    computeForQueries<Type, Sums>(p, memory, barriers, group);
  }
}
template <typename Type, bool Sums> TAPEOUT_DEVICE void keyGradients(const KeyArguments &p) {
  const uint32_t memory = sharedMemory();
  const Barriers barriers(memory + kKeyBarriers);
  const int group = uniform(threadIndex() / kWarpgroup);
  if (group == kGroups) {
    giveRegisters<kCopyRegisters>();
    copyForKeys(p, memory, barriers);
  } else {
    takeRegisters<kComputeRegisters>();
    computeForKeys<Type, Sums>(p, memory, barriers, group);
  }
}

} // namespace

// Arguments are the operands and results of tape.attention_query_gradient and tape.attention_key_gradients.
#define KERNELS(Type, suffix)                                                                                          \
  TAPEOUT_KERNEL                                                                                                       \
  attention_query_gradient_##suffix(const void *query, const void *key, const void *value, const void *result,         \
                                    const float *lse, const void *gradient, void *queryGradientResult,                 \
                                    float *numbers) {                                                                  \
    queryGradient<Type, false>({query, key, value, result, gradient, lse, queryGradientResult, numbers, nullptr});     \
  }                                                                                                                    \
  TAPEOUT_KERNEL                                                                                                       \
  attention_query_gradient_sums_##suffix(const void *query, const void *key, const void *value, const void *result,    \
                                         const float *lse, const void *gradient, void *queryGradientResult,            \
                                         float *numbers, float *sums) {                                                \
    queryGradient<Type, true>({query, key, value, result, gradient, lse, queryGradientResult, numbers, sums});         \
  }                                                                                                                    \
  TAPEOUT_KERNEL                                                                                                       \
  attention_key_gradients_##suffix(const void *query, const void *key, const void *value, const void *gradient,        \
                                   const float *numbers, void *keyGradient, void *valueGradient) {                     \
    keyGradients<Type, false>({query, key, value, gradient, numbers, keyGradient, valueGradient, nullptr, nullptr});   \
  }                                                                                                                    \
  TAPEOUT_KERNEL                                                                                                       \
  attention_key_gradients_sums_##suffix(const void *query, const void *key, const void *value, const void *gradient,   \
                                        const float *numbers, void *keyGradient, void *valueGradient, float *keySums,  \
                                        float *valueSums) {                                                            \
    keyGradients<Type, true>({query, key, value, gradient, numbers, keyGradient, valueGradient, keySums, valueSums});  \
  }
KERNELS(BFloat16, bf16)
KERNELS(Float16, f16)

/// Dynamic shared memory of the kernels.
extern "C" {
extern const uint32_t tapeoutAttentionQueryBytes, tapeoutAttentionKeyBytes;
const uint32_t tapeoutAttentionQueryBytes = kQueryBytes, tapeoutAttentionKeyBytes = kKeyBytes;
}
