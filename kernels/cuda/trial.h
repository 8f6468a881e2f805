#pragma once
#include <array>
#include <chrono>

#include "kernels/cuda/blas_problem.h"
#include "kernels/cuda/fastest.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops/launch.h"

/// What it takes to try algorithms of a product on a GPU.
namespace frugal::kernels::cuda {

/// Memory of d's size for sums that must not go to d itself, zeros; given back when this goes. Null
/// where there is none to spare. Where there are other ranks the device's own memory keeps it: to
/// free it would wait for kernels that wait for them.
class Spare {
 public:
  Spare(CudaMemory& memory, const BlasProblem& problem, const Launch& on);
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare();
  void* data() const { return data_; }

 private:
  CudaMemory* const memory_;  ///< null where there are no other ranks
  const int64_t bytes_;
  void* data_ = nullptr;
};

/// Measures the time that passes on a stream from start() to stop().
class Stopwatch {
 public:
  explicit Stopwatch(const Launch& on);
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  /// Keeps the stream busy for a moment, so that what is timed has been issued when it begins.
  void start();
  /// Waits, as Launch::wait_for() does.
  Execution stop();

 private:
  const Launch& on_;
  std::array<cudaEvent_t, 2> events_{};
  std::chrono::steady_clock::time_point started_;
};

}  // namespace frugal::kernels::cuda
