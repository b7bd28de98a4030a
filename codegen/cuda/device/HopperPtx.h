// The words of Hopper.h as PTX. Included there, within its namespace.

TAPEOUT_DEVICE int threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
TAPEOUT_DEVICE int blockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
TAPEOUT_DEVICE int blockCount() { return __nvvm_read_ptx_sreg_nctaid_x(); }
/// What the warp's first thread has, which the assembler then keeps once for the warp.
TAPEOUT_DEVICE int uniform(int value) { return __nvvm_shfl_sync_idx_i32(~0u, value, 0, 31); }
TAPEOUT_DEVICE float fromLane(float value, int lane) { return __nvvm_shfl_sync_idx_f32(~0u, value, lane, 31); }
TAPEOUT_DEVICE float fromNeighbour(float value) { return __nvvm_shfl_sync_bfly_f32(~0u, value, 1, 31); }

extern "C" __attribute__((address_space(3), aligned(1024))) char tapeoutSharedMemory[];
/// Where the dynamic shared memory of the block begins.
TAPEOUT_DEVICE uint32_t sharedMemory() { return uint32_t(uint64_t(&tapeoutSharedMemory[0])); }

TAPEOUT_DEVICE void syncBlock() { asm volatile("barrier.sync 0;" ::: "memory"); }
TAPEOUT_DEVICE void syncWarp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
/// All threads of a warpgroup arrive before any goes on. The barriers 1, 2, ... belong to the groups 0, 1, ...
TAPEOUT_DEVICE void syncGroup(int group) { asm volatile("barrier.sync %0, 128;" ::"r"(group + 1) : "memory"); }
/// Two warpgroups take turns: a group's turn comes when the other one has given it. The barriers 3 and 4 are the turns
/// of the groups 0 and 1.
TAPEOUT_DEVICE void waitForTurn(int group) { asm volatile("barrier.sync %0, 256;" ::"r"(group + 3) : "memory"); }
TAPEOUT_DEVICE void giveTurn(int group) { asm volatile("barrier.arrive %0, 256;" ::"r"(group + 3) : "memory"); }

TAPEOUT_DEVICE void initBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
TAPEOUT_DEVICE void fenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TAPEOUT_DEVICE void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives; the phase is not over before so many bytes of boxes have been copied, too.
TAPEOUT_DEVICE void arriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Until the phase of this parity is over.
TAPEOUT_DEVICE void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// 16 bytes, or zeros.
TAPEOUT_DEVICE void copy16(uint32_t to, const void *from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
TAPEOUT_DEVICE void copy4(uint32_t to, const void *from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0) : "memory");
}
/// Arrives when all copies of this thread so far have.
TAPEOUT_DEVICE void arriveAfterCopies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
TAPEOUT_DEVICE void waitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
/// Makes what copies and stores have written to shared memory visible to products.
TAPEOUT_DEVICE void fenceForProducts() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Copies the box of a matrix that begins at `column` and `row`, with zeros for what is behind the matrix. Its bytes
/// count for the barrier's phase. One thread does it.
TAPEOUT_DEVICE void loadBox(uint32_t to, const TensorMap &map, int column, int row, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(&map), "r"(column), "r"(row), "r"(barrier)
               : "memory");
}
/// Copies to the box of a matrix, but for what is behind the matrix: a batch of this thread's. What was stored in
/// shared memory needs a fence as for products before.
TAPEOUT_DEVICE void storeBox(const TensorMap &map, int column, int row, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n\t"
               "cp.async.bulk.commit_group;" ::"l"(&map),
               "r"(column), "r"(row), "r"(from)
               : "memory");
}
/// Until at most so many of this thread's batches have still to be read from shared memory.
template <int Unread> TAPEOUT_DEVICE void waitForBoxReads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Unread) : "memory");
}
/// Until all boxes that this thread has stored are in global memory.
TAPEOUT_DEVICE void waitForBoxes() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

struct Words4 {
  uint32_t word[4];
};
struct Floats4 {
  float value[4];
};
TAPEOUT_DEVICE Words4 loadShared16(uint32_t at) {
  Words4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(at)
               : "memory");
  return v;
}
TAPEOUT_DEVICE Floats4 loadFloats4(uint32_t at) {
  Floats4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.value[0]), "=f"(v.value[1]), "=f"(v.value[2]), "=f"(v.value[3])
               : "r"(at)
               : "memory");
  return v;
}
TAPEOUT_DEVICE float loadFloat(uint32_t at) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
  return v;
}
TAPEOUT_DEVICE void storeShared(uint32_t at, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}
/// Four transposed matrices of 8 x 8 elements of 16 bits. The lane 8 m + r of a warp says where row r of matrix m lies.
/// Thread t gets, or has, word m: of column t / 4 the rows 2 (t % 4) and the next, as products spread their sums.
TAPEOUT_DEVICE Words4 loadTransposed(uint32_t at) {
  Words4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(at)
               : "memory");
  return v;
}
TAPEOUT_DEVICE void storeTransposed(uint32_t at, Words4 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
TAPEOUT_DEVICE void storeGlobal16(void *at, Words4 v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]),
               "r"(v.word[3])
               : "memory");
}

TAPEOUT_DEVICE void storeGlobal8(void *at, float a, float b) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(a), "f"(b) : "memory");
}

/// 2^x; subnormal results are zero. volatile: what follows a wait for products would else be computed behind the next.
TAPEOUT_DEVICE float exp2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TAPEOUT_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TAPEOUT_DEVICE float multiplyAdd(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }

struct BFloat16 {};
struct Float16 {};
/// Two numbers rounded, the first in the low half.
TAPEOUT_DEVICE uint32_t pack(float low, float high, BFloat16) {
  uint32_t both;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
TAPEOUT_DEVICE uint32_t pack(float low, float high, Float16) {
  uint32_t both;
  asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
TAPEOUT_DEVICE float lowOf(uint32_t both, BFloat16) { return __builtin_bit_cast(float, both << 16); }
TAPEOUT_DEVICE float highOf(uint32_t both, BFloat16) { return __builtin_bit_cast(float, both & 0xFFFF0000); }
TAPEOUT_DEVICE float lowOf(uint32_t both, Float16) {
  float f;
  asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tcvt.f32.f16 %0, low;\n\t}" : "=f"(f) : "r"(both));
  return f;
}
TAPEOUT_DEVICE float highOf(uint32_t both, Float16) { return lowOf(both >> 16, Float16()); }

/// Registers of each thread of the warpgroup, from here on; a multiple of 8.
template <int Count> TAPEOUT_DEVICE void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> TAPEOUT_DEVICE void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

/// Before products: registers and memory are as the thread has left them.
TAPEOUT_DEVICE void beginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// The products since the last call are one batch.
TAPEOUT_DEVICE void endBatch() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most so many batches are not finished.
template <int Unfinished> TAPEOUT_DEVICE void waitForBatches() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Unfinished) : "memory");
}

#define TAPEOUT_8(d, i)                                                                                                \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),          \
      "+f"(d[i + 7])
#define TAPEOUT_TILE(d) TAPEOUT_8(d, 0), TAPEOUT_8(d, 8), TAPEOUT_8(d, 16), TAPEOUT_8(d, 24)
#define TAPEOUT_TILE_REGISTERS                                                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "    \
  "%24, %25, "                                                                                                         \
  "%26, %27, %28, %29, %30, %31}"
#define TAPEOUT_WGMMA(type) "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " TAPEOUT_TILE_REGISTERS

/// d [64, 64] = or += a [64, 16] b [64, 16]^T, both matrices of shared memory with the summed index along their rows.
/// Thread t of a warp has of d the rows t / 4 and t / 4 + 8 of its warp's 16, and of each 8 columns 2 (t % 4) and the
/// next.
#define TAPEOUT_PRODUCT(Type, name)                                                                                          \
  TAPEOUT_DEVICE void multiplyRows(float *d, uint64_t a, uint64_t b, int accumulate, Type) {                                 \
    asm volatile(                                                                                                            \
        "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %34, 0;\n\t" TAPEOUT_WGMMA(name) ", %32, %33, add, 1, 1, 0, 0;\n\t}"       \
        : TAPEOUT_TILE(d)                                                                                                    \
        : "l"(a), "l"(b), "r"(accumulate)                                                                                    \
        : "memory");                                                                                                         \
  }                                                                                                                          \
  /* d += a b, where b [16, 64] lies in shared memory and `a` [64, 16] in registers, spread as 16 columns of d, in pairs. */ \
  TAPEOUT_DEVICE void multiplyAddColumns(float *d, const uint32_t *a, uint64_t b, Type) {                                    \
    asm volatile(TAPEOUT_WGMMA(name) ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                              \
                 : TAPEOUT_TILE(d)                                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                                        \
                 : "memory");                                                                                                \
  }
TAPEOUT_PRODUCT(BFloat16, "bf16")
TAPEOUT_PRODUCT(Float16, "f16")

#define TAPEOUT_WIDE_TILE(d)                                                                                           \
  TAPEOUT_TILE(d), TAPEOUT_8(d, 32), TAPEOUT_8(d, 40), TAPEOUT_8(d, 48), TAPEOUT_8(d, 56), TAPEOUT_8(d, 64),           \
      TAPEOUT_8(d, 72)
#define TAPEOUT_WIDE_TILE_REGISTERS                                                                                    \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "                        \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "               \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "               \
  "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}"

/// d [64, 160] += a b^T, both matrices of shared memory: b [160, 16] and a [64, 16], or, Transposed, a^T [16, 64]. d is
/// spread as that of multiplyRows.
#define TAPEOUT_WIDE_PRODUCT(Type, name)                                                                               \
  template <bool Transposed> TAPEOUT_DEVICE void multiplyAddWide(float *d, uint64_t a, uint64_t b, Type) {             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32." name "." name " " TAPEOUT_WIDE_TILE_REGISTERS          \
                 ", %80, %81, 1, 1, 1, %82, 0;"                                                                        \
                 : TAPEOUT_WIDE_TILE(d)                                                                                \
                 : "l"(a), "l"(b), "n"(Transposed ? 1 : 0)                                                             \
                 : "memory");                                                                                          \
  }
TAPEOUT_WIDE_PRODUCT(BFloat16, "bf16")
TAPEOUT_WIDE_PRODUCT(Float16, "f16")
