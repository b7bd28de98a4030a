#include "runtime/device/cuda/CudaRoofs.h"

#include "runtime/device/cpu/FunctionRef.h"
#include "runtime/device/cuda/ProductTuning.h"

#include <algorithm>

namespace tapeout::rt {
namespace {

constexpr int kCandidates = 8, kMeasurements = 3, kRepeats = 4;

class Timer {
public:
  Timer(const CudaDriver &driver, CuStream stream) : driver_(driver), stream_(stream) {}
  Status create() {
    for (Owned<CuEvent> *event : {&begin_, &end_}) {
      CuEvent made;
      TAPEOUT_RETURN_IF_ERROR(check(driver_.eventCreate(&made, 0)));
      *event = Owned(made, driver_.eventDestroy);
    }
    return Status::ok();
  }

  /// The least seconds of one `work`, which queues something.
  Result<double> measure(FunctionRef<Status()> work) const {
    TAPEOUT_RETURN_IF_ERROR(work()); // loads the kernel
    double least = 0;
    for (int i = 0; i < kMeasurements; ++i) {
      float milliseconds = 0;
      TAPEOUT_RETURN_IF_ERROR(check(driver_.eventRecord(begin_.get(), stream_)));
      for (int repeat = 0; repeat < kRepeats; ++repeat)
        TAPEOUT_RETURN_IF_ERROR(work());
      TAPEOUT_RETURN_IF_ERROR(check(driver_.eventRecord(end_.get(), stream_)));
      TAPEOUT_RETURN_IF_ERROR(check(driver_.eventSynchronize(end_.get())));
      TAPEOUT_RETURN_IF_ERROR(check(driver_.eventElapsedTime(&milliseconds, begin_.get(), end_.get())));
      double seconds = std::max(milliseconds / kRepeats * 1e-3, 1e-9);
      least = i == 0 ? seconds : std::min(least, seconds);
    }
    return least;
  }
  Status check(CuResult result) const { return driver_.check(result, "measuring the GPU"); }

private:
  const CudaDriver &driver_;
  CuStream stream_;
  Owned<CuEvent> begin_, end_;
};

/// Floating-point operations per second of a product of n x n matrices that lie one behind the other.
Result<double> measureProduct(const CublasContext &blas, ElementType type, CuDevicePointer memory, int64_t n,
                              const Timer &timer) {
  const uint64_t bytes = n * n * elementSize(type);
  GemmProblem problem;
  problem.m = problem.n = problem.k = n;
  problem.aRowStride = problem.bRowStride = problem.cRowStride = n;
  problem.aColumnStride = problem.bColumnStride = problem.cColumnStride = 1;
  const ProductOperands operands{memory, memory + bytes, memory + 2 * bytes, type, type};
  Result<CublasProduct> product = CublasProduct::create(blas, problem, operands);
  if (!product.isOk())
    return product.status();
  Result<std::vector<CublasAlgorithm>> candidates = product->candidates(kCandidates);
  if (!candidates.isOk())
    return candidates.status();
  double best = 0;
  for (const CublasAlgorithm &candidate : *candidates) {
    Result<double> seconds = timer.measure([&] { return product->run(candidate); });
    if (!seconds.isOk())
      return seconds.status();
    best = std::max(best, 2.0 * n * n * n / *seconds);
  }
  return best;
}

} // namespace

Result<Roofs> measureRoofs(const CudaDriver &driver, const CublasContext &blas, std::span<const ElementType> types,
                           CuStream stream, const RoofSizes &sizes) {
  Roofs roofs;
  Timer timer(driver, stream);
  TAPEOUT_RETURN_IF_ERROR(timer.create());
  CuDevicePointer memory;
  if (driver.memAlloc(&memory, 2 * sizes.copyBytes) != kCuSuccess)
    return roofs;
  Owned<CuDevicePointer> owned(memory, driver.memFree);
  TAPEOUT_RETURN_IF_ERROR(fillWithRandomNumbers(driver, memory, 2 * sizes.copyBytes, stream));
  Result<double> copied = timer.measure(
      [&] { return timer.check(driver.memcpyDtoDAsync(memory + sizes.copyBytes, memory, sizes.copyBytes, stream)); });
  if (!copied.isOk())
    return copied.status();
  roofs.bytesPerSecond = 2.0 * sizes.copyBytes / *copied;
  for (ElementType type : types) {
    if (!blas.handle)
      break;
    const int64_t size = type == ElementType::F32 ? sizes.productOfF32 : sizes.product;
    Result<double> rate = measureProduct(blas, type, memory, size, timer);
    if (!rate.isOk())
      return rate.status();
    roofs.productsPerSecond[type] = *rate;
  }
  return roofs;
}

} // namespace tapeout::rt
