#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

// Every kernel's file includes this, and nvcc reads it five times: it has no heavy header.
namespace frugal::kernels {
struct HostCalls;
}

namespace frugal::kernels::cuda {

[[noreturn]] void fail(cudaError_t error, const char* call, const char* file, int line);

/// Throws CudaError unless the call succeeded; `call` is its name: "cudaMemcpyAsync". Where it was
/// made is found by itself.
inline void check(cudaError_t error, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error != cudaSuccess) fail(error, call, file, line);
}

/// Device memory for what an operation needs for itself, such as partial sums. Not cleared. What
/// one operation was given is the next one's: operations of a stream run one after the other.
class Scratch {
 public:
  virtual ~Scratch() = default;
  /// Returns at least this many bytes, 256-byte aligned. Throws OutOfMemory.
  virtual void* bytes(size_t count) = 0;
  template <class T>
  T* take(size_t elements) {
    return static_cast<T*>(bytes(elements * sizeof(T)));
  }
};

/// Looks after the other ranks while the host waits for a GPU.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Throws where a rank is lost.
  virtual void look() const = 0;
};

/// Stream and device that kernels are launched on.
struct Launch {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  size_t shared_memory = size_t{48} << 10;  ///< bytes that a block may have
  Scratch* scratch = nullptr;
  HostCalls* calls = nullptr;    ///< counts them, where it is set
  const Watch* watch = nullptr;  ///< null where there are no other ranks

  /// Waits for the event, and looks again and again while it does.
  void wait_for(cudaEvent_t event) const;
  void count_launch() const;
  void count_library_call() const;
};

/// Lets blocks of the kernel have so much dynamic shared memory on the thread's current device.
/// Without, they may have 48 KiB less what the kernel declares. What was once allowed is only
/// looked up.
void allow_dynamic_shared(const void* kernel, size_t bytes);

/// Launches kernel(arguments…) on `blocks` blocks of `threads` threads, each block with `shared`
/// bytes of dynamic_shared(); checked. Nothing is launched for no blocks.
template <class... Parameters, class... Arguments>
void launch_with_shared(const Launch& on, void (*kernel)(Parameters...), int64_t blocks,
                        int threads, size_t shared, Arguments&&... arguments) {
  if (blocks == 0) return;
  if (shared > 0) allow_dynamic_shared(reinterpret_cast<const void*>(kernel), shared);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = on.stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "cudaLaunchKernelEx");
  on.count_launch();
}

template <class... Parameters, class... Arguments>
void launch(const Launch& on, void (*kernel)(Parameters...), int64_t blocks, int threads,
            Arguments&&... arguments) {
  launch_with_shared(on, kernel, blocks, threads, 0, std::forward<Arguments>(arguments)...);
}

/// Blocks for `count` independent pieces of work when each thread or block loops over what is left:
/// enough to fill the device several times over, no more than there is work.
inline int64_t blocks_for(const Launch& on, int64_t count, int64_t per_multiprocessor = 16) {
  const int64_t most = on.multiprocessors * per_multiprocessor;
  return count < most ? count : most;
}

}  // namespace frugal::kernels::cuda
