#include "kernels/cuda/ops/launch.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "kernels/cuda/error.h"
#include "kernels/device_work.h"

namespace frugal::kernels::cuda {
namespace {

const char* next_step(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return "check with nvidia-smi that there is a GPU and a driver that is new enough";
    case cudaErrorNoKernelImageForDevice:
      return "build with CMAKE_CUDA_ARCHITECTURES for this GPU";
    case cudaErrorMemoryAllocation:
      return "choose a smaller model or microbatch, or end other programs on this GPU";
    default:
      return "run again under compute-sanitizer to see which operation caused it";
  }
}

}  // namespace

std::string place(const char* file, int line) {
  const std::string_view path = file;
  const size_t root = path.rfind("kernels/"), engine = path.rfind("engine/");
  const size_t begin = root != std::string_view::npos     ? root
                       : engine != std::string_view::npos ? engine
                                                          : 0;
  return fmt::format("{}:{}", path.substr(begin), line);
}

void fail(cudaError_t error, const char* call, const char* file, int line) {
  throw CudaError(fmt::format("{} at {}: {} ({}); {}", call, place(file, line),
                              cudaGetErrorString(error), cudaGetErrorName(error),
                              next_step(error)));
}

void Launch::wait_for(cudaEvent_t event) const {
  if (watch == nullptr) return check(cudaEventSynchronize(event), "cudaEventSynchronize");
  cudaError_t state = cudaSuccess;
  while ((state = cudaEventQuery(event)) == cudaErrorNotReady) {
    watch->look();
    std::this_thread::yield();
  }
  check(state, "cudaEventQuery");
}

void Launch::count_launch() const {
  if (calls != nullptr) ++calls->launches;
}

void Launch::count_library_call() const {
  count_launch();
  if (calls != nullptr) ++calls->library_calls;
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
