#pragma once
// What engine/comm/nccl*.cpp uses of CUDA, on the processor: it stands before the toolkit's headers
// on the include path. A stream is a thread, so that nothing happens in order but what is ordered.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600
};
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }

struct CUstream_st {
 public:
  CUstream_st() : thread_([this] { work(); }) {}
  /// Ends what was issued.
  ~CUstream_st();
  void push(std::function<void()> work);
  bool idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, closing_ = false;
  std::jthread thread_;  // last: it uses the others
};
using cudaStream_t = CUstream_st*;

struct CUevent_st {
  std::shared_ptr<std::atomic<bool>> passed = std::make_shared<std::atomic<bool>>(true);
};
using cudaEvent_t = CUevent_st*;
inline constexpr unsigned cudaEventDisableTiming = 2;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
