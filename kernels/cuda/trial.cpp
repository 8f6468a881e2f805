#include "kernels/cuda/trial.h"

#include "kernels/cuda/occupy.h"
#include "kernels/support/error.h"

namespace frugal::kernels::cuda {

namespace {

int64_t bytes_of_result(const BlasProblem& p) {
  const int64_t elements =
      p.d.leading * (p.d.cols - 1) + p.d.rows + p.d.batch_stride * (p.batch - 1);
  return elements * size_of(p.d.type);
}

}  // namespace

Spare::Spare(CudaMemory& memory, const BlasProblem& problem, const Launch& on)
    : memory_(on.look == nullptr ? nullptr : &memory), bytes_(bytes_of_result(problem)) {
  const auto size = static_cast<size_t>(bytes_);
  if (memory_ == nullptr) {
    if (cudaMalloc(&data_, size) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      data_ = nullptr;
    }
  } else {
    try {
      data_ = memory_->allocate(bytes_);
    } catch (const OutOfMemory&) {  // it is not needed
    }
  }
  if (data_ != nullptr) check(cudaMemsetAsync(data_, 0, size, on.stream), "cudaMemsetAsync");
}

Spare::~Spare() {
  if (memory_ == nullptr)
    cudaFree(data_);
  else
    memory_->deallocate(data_, bytes_);
}

Stopwatch::Stopwatch(const Launch& on) : on_(on) {
  for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
}

void Stopwatch::start() {
  constexpr double issuing = 2e-5;
  occupy(on_.stream, issuing);
  started_ = std::chrono::steady_clock::now();
  check(cudaEventRecord(events_[0], on_.stream), "cudaEventRecord");
}

Execution Stopwatch::stop() {
  check(cudaEventRecord(events_[1], on_.stream), "cudaEventRecord");
  const std::chrono::duration<float, std::milli> issuing =
      std::chrono::steady_clock::now() - started_;
  on_.wait_for(events_[1]);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
  return {milliseconds, issuing.count()};
}

}  // namespace frugal::kernels::cuda
