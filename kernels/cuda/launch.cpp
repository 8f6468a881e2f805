#include "kernels/cuda/launch.h"

#include <map>
#include <mutex>
#include <thread>

namespace frugal::kernels::cuda {

void Launch::wait_for(cudaEvent_t event) const {
  if (look == nullptr) return check(cudaEventSynchronize(event), "cudaEventSynchronize");
  cudaError_t state = cudaSuccess;
  while ((state = cudaEventQuery(event)) == cudaErrorNotReady) {
    (*look)();
    std::this_thread::yield();
  }
  check(state, "cudaEventQuery");
}

void allow_dynamic_shared(const void* kernel, size_t bytes) {
  static std::mutex mutex;  // ranks are threads
  static std::map<std::pair<const void*, int>, size_t> allowed;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  size_t& most = allowed[{kernel, device}];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
  most = bytes;
}

}  // namespace frugal::kernels::cuda
