#include <cuda_runtime.h>

CUstream_st::~CUstream_st() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void CUstream_st::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

bool CUstream_st::idle() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void CUstream_st::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    next();
    lock.lock();
    busy_ = false;
  }
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->passed = std::make_shared<std::atomic<bool>>(false);
  stream->push([passed = event->passed] {
    *passed = true;
    passed->notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return *event->passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  stream->push([passed = event->passed] { passed->wait(false); });
  return cudaSuccess;
}
