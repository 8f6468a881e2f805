#include "kernels/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/ops/launch.h"

namespace frugal::kernels {

bool cuda_synchronous() {
  static const bool wanted = std::getenv("FRUGAL_CUDA_SYNCHRONOUS") != nullptr;
  return wanted;
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {
namespace {

/// Events of a stream are used again after so many others of it. Who still waits for the former
/// moment then waits for a later one of the same stream: longer, never shorter.
constexpr size_t event_count = 128;

}  // namespace

bool unrecoverable(cudaError_t error) {
  static constexpr std::array all = {
      cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
      cudaErrorLaunchTimeout, cudaErrorAssert, cudaErrorHardwareStackError,
      cudaErrorIllegalInstruction, cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace,
      cudaErrorInvalidPc, cudaErrorLaunchFailure, cudaErrorMpsClientTerminated,
      // cudaErrorContained and cudaErrorTensorMemoryLeak, which older toolkits do not name.
      static_cast<cudaError_t>(226), static_cast<cudaError_t>(721)};
  return std::find(all.begin(), all.end(), error) != all.end();
}

TimedEvents::~TimedEvents() {
  forget();
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
}

cudaEvent_t TimedEvents::take() {
  cudaEvent_t event = nullptr;
  if (free_.empty()) {
    check(cudaEventCreate(&event), "cudaEventCreate");
    return event;
  }
  event = free_.back();
  free_.pop_back();
  return event;
}

void TimedEvents::around(cudaStream_t stream, const std::function<void()>& issue,
                         std::function<void(double seconds)> seen) {
  const cudaEvent_t begin = take();
  free_.push_back(begin);  // until it is half of a pair
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  free_.pop_back();
  try {
    issue();
  } catch (...) {
    free_.push_back(begin);
    throw;
  }
  pairs_.push_back({begin, take(), std::move(seen)});
  check(cudaEventRecord(pairs_.back().end, stream), "cudaEventRecord");
}

void TimedEvents::read() {
  const std::vector<Pair> pairs = std::exchange(pairs_, {});
  for (const Pair& pair : pairs) free_.insert(free_.end(), {pair.begin, pair.end});
  for (const Pair& pair : pairs) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, pair.begin, pair.end), "cudaEventElapsedTime");
    pair.seen(1e-3 * static_cast<double>(milliseconds));
  }
}

void TimedEvents::forget() {
  for (const Pair& pair : pairs_) free_.insert(free_.end(), {pair.begin, pair.end});
  pairs_.clear();
}

/// Scratch memory of the compute stream: grows, and is kept. What it has outgrown is still used by
/// what was issued, and given back: that stream's order holds. Other streams keep no such order,
/// and have none: without `memory` it gives nothing.
class CudaDevice::StreamScratch final : public Scratch {
 public:
  explicit StreamScratch(CudaMemory* memory) : memory_(memory) {}
  StreamScratch(const StreamScratch&) = delete;
  StreamScratch& operator=(const StreamScratch&) = delete;
  ~StreamScratch() override {
    if (memory_ != nullptr) memory_->deallocate(data_, size_);
  }

  void* bytes(size_t count) override {
    if (memory_ == nullptr)
      throw std::logic_error(
          "an operation that needs scratch memory is the compute stream's alone");
    const auto wanted = static_cast<int64_t>(count);
    if (wanted > size_) {
      memory_->deallocate(std::exchange(data_, nullptr), std::exchange(size_, 0));
      data_ = memory_->allocate(wanted);
      size_ = wanted;
    }
    return data_;
  }

 private:
  CudaMemory* const memory_;
  void* data_ = nullptr;
  int64_t size_ = 0;
};

CudaDevice::CudaDevice(int index, int most_ahead) : index_(index), most_ahead_(most_ahead) {
  make_current();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  multiprocessors_ = properties.multiProcessorCount;
  shared_memory_ = properties.sharedMemPerBlockOptin;
  for (const Stream stream : {Stream::compute, Stream::copy})
    CudaDevice::add_stream(stream, StreamUse::copies);
  compute_scratch_ = std::make_unique<StreamScratch>(&memory_);
  no_scratch_ = std::make_unique<StreamScratch>(nullptr);
  blas_ = std::make_unique<Blas>(memory_, gpus().at(static_cast<size_t>(index)));
  attention_ = std::make_unique<FusedAttentions>(memory_, index);
}

/// Gives streams that other ranks wait for priority over computation: a kernel of NCCL's that waits
/// for places behind a product keeps those ranks waiting, too.
void CudaDevice::add_stream(Stream /*stream*/, StreamUse use) {
  make_current();
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  Queue& queue = queues_.emplace_back();
  check(cudaStreamCreateWithPriority(&queue.stream, cudaStreamNonBlocking,
                                     use == StreamUse::copies ? least : greatest),
        "cudaStreamCreateWithPriority");
  queue.events.resize(event_count);
  for (cudaEvent_t& event : queue.events)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(index_);
  cudaDeviceSynchronize();
  attention_.reset();
  blas_.reset();
  if (loaded_.data != nullptr) memory_.deallocate(loaded_.data, loaded_.bytes());
  compute_scratch_.reset();
  for (const Queue& queue : queues_)
    for (const cudaEvent_t event : queue.events) cudaEventDestroy(event);
  for (const cudaEvent_t mark : marks_)
    if (mark != nullptr) cudaEventDestroy(mark);
  for (const Queue& queue : queues_) cudaStreamDestroy(queue.stream);
}

/// Each thread has a current device of its own.
void CudaDevice::make_current() const {
  const cudaError_t error = cudaSetDevice(index_);
  if (unrecoverable(error)) check_issued(error);
  check(error, "cudaSetDevice");
}

void* CudaDevice::allocate(int64_t bytes) {
  make_current();
  return memory_.allocate(bytes);
}

void CudaDevice::deallocate(void* address, int64_t bytes) noexcept {
  cudaSetDevice(index_);
  memory_.deallocate(address, bytes);
}

void* CudaDevice::allocate_on_host(int64_t bytes) {
  make_current();
  return host_memory_.allocate(bytes);
}

void CudaDevice::deallocate_on_host(void* address, int64_t bytes) noexcept {
  cudaSetDevice(index_);
  host_memory_.deallocate(address, bytes);
}

void CudaDevice::stay_near() {
  if (most_ahead_ == 0 || ++since_mark_ < most_ahead_ / marks) return;
  since_mark_ = 0;
  cudaEvent_t& mark = marks_[next_mark_++ % marks];
  if (mark == nullptr)
    check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  else
    Launch{.watch = this}.wait_for(mark);
  check(cudaEventRecord(mark, cuda_stream(Stream::compute)), "cudaEventRecord");
}

void CudaDevice::run_on(Stream stream, const Operation& operation) {
  make_current();
  stay_near();
  const std::string_view before = std::exchange(last_, name_of(operation));
  try {
    issue(stream, operation);
  } catch (const CudaError& error) {
    throw CudaError(fmt::format("{}, issued after {}: {}", last_, before, error.what()));
  }
  if (cuda_synchronous()) synchronize();
}

void CudaDevice::issue(Stream stream, const Operation& operation) {
  const Launch on{.stream = cuda_stream(stream),
                  .multiprocessors = multiprocessors_,
                  .shared_memory = shared_memory_,
                  .scratch = (stream == Stream::compute ? compute_scratch_ : no_scratch_).get(),
                  .calls = &work_.calls,
                  .watch = watches_.empty() ? nullptr : this};
  cuda::issue(operation, *blas_, on, [&](const auto& op) { attention_->run(op, on); });
}

void CudaDevice::run_timed(const Operation& operation, const OnOperation& seen) {
  make_current();
  timed_.around(
      cuda_stream(Stream::compute), [&] { run_on(Stream::compute, operation); },
      [operation, &seen](double seconds) { seen(operation, seconds); });
}

void CudaDevice::time_operations(OnOperation seen) {
  timed_.forget();
  Device::time_operations(std::move(seen));
}

double CudaDevice::seconds_on(Stream stream, const std::function<void()>& issue) {
  synchronize();
  const auto taken = std::make_shared<double>(0);  // an abort may leave the events for later
  timed_.around(cuda_stream(stream), issue, [taken](double seconds) { *taken = seconds; });
  synchronize();
  return *taken;
}

void CudaDevice::occupy(Stream stream, double seconds, std::string_view name) {
  make_current();
  last_ = name;
  if (load_.blocks == 0) return cuda::occupy(cuda_stream(stream), seconds);
  cuda::occupy({.stream = cuda_stream(stream),
                .multiprocessors = multiprocessors_,
                .shared_memory = shared_memory_},
               seconds, load_.blocks, load_.bandwidth, loaded_);
}

void CudaDevice::load_by_collectives(const CollectiveLoad& load) {
  constexpr int64_t elements = int64_t{32} << 20;  // more than any GPU's cache
  make_current();
  if (loaded_.data == nullptr && load.blocks > 0)
    loaded_ = {memory_.allocate(elements * size_of(DType::f32)), DType::f32, {elements}};
  load_ = load;
}

Event CudaDevice::record(Stream stream) {
  make_current();
  Queue& queue = queues_.at(stream.index);
  const cudaEvent_t event = queue.events[queue.next_event++ % event_count];
  check(cudaEventRecord(event, queue.stream), "cudaEventRecord");
  return {.time = 0, .handle = event};
}

void CudaDevice::wait(Stream stream, const Event& event) {
  if (event.handle == nullptr) return;
  make_current();
  check(cudaStreamWaitEvent(cuda_stream(stream), static_cast<cudaEvent_t>(event.handle), 0),
        "cudaStreamWaitEvent");
}

void CudaDevice::look() const {
  for (const auto& [owner, watch] : watches_) watch();
}

void CudaDevice::wait_for(cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (!watches_.empty()) {
    while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
      look();
      std::this_thread::yield();
    }
  } else {
    error = cudaStreamSynchronize(stream);
  }
  check_issued(error);
}

void CudaDevice::check_issued(cudaError_t error) const {
  if (error == cudaSuccess) return;
  throw CudaError(fmt::format(
      "{} ({}) in {} or an operation before it since the last synchronisation; run again with "
      "FRUGAL_CUDA_SYNCHRONOUS=1, which names the operation, and under compute-sanitizer",
      cudaGetErrorString(error), cudaGetErrorName(error), last_));
}

void CudaDevice::synchronize() {
  ++work_.calls.synchronisations;
  cudaSetDevice(index_);  // where it tells of an earlier operation's error, so do the streams
  for (const Queue& queue : queues_) wait_for(queue.stream);
  look();  // an abort ends collectives too, and their results are none
  timed_.read();
}

double CudaDevice::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void CudaDevice::copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  make_current();
  ++work_.calls.copies;
  ++work_.calls.synchronisations;
  // For what was computed, and not for messages that other ranks have yet to receive.
  wait_for(cuda_stream(Stream::compute));
  look();
  if (bytes == 0) return;
  const cudaStream_t stream = cuda_stream(Stream::copy);
  last_ = "copy";
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream), "cudaMemcpyAsync");
  // It waits for nobody, and the host's memory must not go before it has ended.
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void CudaDevice::copy_to_host(void* host, const View& from) {
  assert(from.contiguous());
  copy(host, from.data, from.bytes(), cudaMemcpyDeviceToHost);
}

void CudaDevice::copy_from_host(const View& to, const void* host) {
  assert(to.contiguous());
  copy(to.data, host, to.bytes(), cudaMemcpyHostToDevice);
}

}  // namespace frugal::kernels::cuda
