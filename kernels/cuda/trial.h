#pragma once
#include <array>
#include <chrono>

#include "kernels/cuda/blas_problem.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/fastest.h"

/// What it takes to try algorithms of a product on a GPU.
namespace frugal::kernels::cuda {

/// Memory of d's size for sums that must not go to d itself, zeros; gone when this goes. Null where
/// there is none to spare.
class Spare {
 public:
  Spare(const BlasProblem& problem, cudaStream_t stream);
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare() { cudaFree(data_); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// What passes on a stream from start() to stop().
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream);
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  /// Keeps the stream busy for a moment, so that what is timed has been issued when it begins.
  void start();
  /// Waits.
  Execution stop();

 private:
  cudaStream_t stream_;
  std::array<cudaEvent_t, 2> events_{};
  std::chrono::steady_clock::time_point started_;
};

}  // namespace frugal::kernels::cuda
