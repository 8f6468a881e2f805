#pragma once
#include <cuda_runtime.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/gpus.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops/launch.h"
#include "kernels/device.h"

namespace frugal::kernels::cuda {

/// True if CUDA's documentation says that a process cannot use the GPU any more after this error.
bool unrecoverable(cudaError_t error);

/// Pairs of events around what is issued, read when the host has waited anyhow: nothing stops for
/// them. Events are used again.
class TimedEvents {
 public:
  TimedEvents() = default;
  TimedEvents(const TimedEvents&) = delete;
  TimedEvents& operator=(const TimedEvents&) = delete;
  ~TimedEvents();

  /// Around what `issue` issues to the stream. read() tells `seen` the seconds.
  void around(cudaStream_t stream, const std::function<void()>& issue,
              std::function<void(double seconds)> seen);
  /// Tells the times of all so far, in their order. They have to have ended.
  void read();
  /// Tells nobody of those that were not read.
  void forget();

 private:
  struct Pair {
    cudaEvent_t begin, end;
    std::function<void(double seconds)> seen;
  };
  cudaEvent_t take();

  std::vector<cudaEvent_t> free_;
  std::vector<Pair> pairs_;
};

class Blas;
class FusedAttentions;

/// One GPU. Everything is issued to its streams and returns at once; an error of something issued
/// earlier surfaces in the next synchronize(), which names the operation that caused it or the ones
/// that may have. To be used by one thread at a time.
class CudaDevice final : public Device, private Watch {
 public:
  /// The host is ahead of the compute stream by so many launches at most; 0: by any.
  explicit CudaDevice(int index, int most_ahead = 0);
  ~CudaDevice() override;

  std::string name() const override { return "cuda"; }
  bool backed() const override { return true; }
  int index() const { return index_; }

  /// 256-byte aligned. What is given back may be handed out again at once: it is used in the order
  /// in which operations are issued to the compute stream. Memory that another stream still uses
  /// must be kept until the compute stream has waited for that.
  void* allocate(int64_t bytes) override;
  void deallocate(void* address, int64_t bytes) noexcept override;
  /// Used again, and to be kept, as the GPU's memory is.
  void* allocate_on_host(int64_t bytes) override;
  void deallocate_on_host(void* address, int64_t bytes) noexcept override;
  int64_t reserved() const override { return memory_.reserved(); }

  void time_operations(OnOperation seen) override;
  double seconds_on(Stream stream, const std::function<void()>& issue) override;
  void occupy(Stream stream, double seconds, std::string_view name) override;
  /// Makes occupy() take this (kernels/cuda/gpus.h).
  void load_by_collectives(const CollectiveLoad& load);

  Event record(Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize() override;
  double now() override;

  void copy_to_host(void* host, const View& from) override;
  void copy_from_host(const View& to, const void* host) override;

  /// Stream of CUDA's, for communicators.
  cudaStream_t cuda_stream(Stream stream) const { return queues_.at(stream.index).stream; }
  void make_current() const;
  /// Called again and again while synchronize() waits, and when all has ended; may throw. A device
  /// has as many as groups it is in, each of an owner that removes it.
  void add_watch(const void* owner, std::function<void()> watch) {
    watches_.emplace_back(owner, std::move(watch));
  }
  void remove_watch(const void* owner) {
    std::erase_if(watches_, [&](const auto& watch) { return watch.first == owner; });
  }
  /// Called before a launch that is not an operation's: counts it, and waits where the host is too
  /// far ahead.
  void stay_near();

 private:
  class StreamScratch;
  struct Queue {
    cudaStream_t stream = nullptr;
    std::vector<cudaEvent_t> events;  // a ring: see record()
    size_t next_event = 0;
  };
  void add_stream(Stream stream, StreamUse use) override;
  /// Throws std::logic_error for an operation that needs scratch memory on any but the compute
  /// stream.
  void run_on(Stream stream, const Operation& operation) override;
  void run_timed(const Operation& operation, const OnOperation& seen) override;
  void issue(Stream stream, const Operation& operation);
  void look() const override;
  void wait_for(cudaStream_t stream);
  /// Throws CudaError for an error of what was issued before.
  void check_issued(cudaError_t error) const;
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind);

  int index_, most_ahead_;
  int multiprocessors_ = 0;
  size_t shared_memory_ = 0;
  std::vector<Queue> queues_;  // of each stream
  CudaMemory memory_{CudaMemory::Place::gpu}, host_memory_{CudaMemory::Place::host};
  std::unique_ptr<Scratch> compute_scratch_, no_scratch_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<FusedAttentions> attention_;
  TimedEvents timed_;
  CollectiveLoad load_;
  View loaded_;  // what it reads and writes
  std::vector<std::pair<const void*, std::function<void()>>> watches_;
  // Marks lie on the compute stream, a quarter of what may be ahead apart: see stay_near().
  static constexpr int marks = 4;
  int since_mark_ = 0;
  size_t next_mark_ = 0;
  std::array<cudaEvent_t, marks> marks_{};
  std::string_view last_ = "nothing";  // what was issued last
};

}  // namespace frugal::kernels::cuda
