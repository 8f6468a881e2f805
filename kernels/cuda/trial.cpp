#include "kernels/cuda/trial.h"

#include "kernels/cuda/occupy.h"

namespace frugal::kernels::cuda {

Spare::Spare(const BlasProblem& p, cudaStream_t stream) {
  const int64_t elements =
      p.d.leading * (p.d.cols - 1) + p.d.rows + p.d.batch_stride * (p.batch - 1);
  const auto bytes = static_cast<size_t>(elements * size_of(p.d.type));
  if (cudaMalloc(&data_, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    data_ = nullptr;
    return;
  }
  check(cudaMemsetAsync(data_, 0, bytes, stream), "cudaMemsetAsync");
}

Stopwatch::Stopwatch(cudaStream_t stream) : stream_(stream) {
  for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
}

void Stopwatch::start() {
  constexpr double issuing = 2e-5;
  occupy(stream_, issuing);
  started_ = std::chrono::steady_clock::now();
  check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
}

Execution Stopwatch::stop() {
  check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
  const std::chrono::duration<float, std::milli> issuing =
      std::chrono::steady_clock::now() - started_;
  check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
  return {milliseconds, issuing.count()};
}

}  // namespace frugal::kernels::cuda
