#include "kernels/cuda/check.h"

#include <fmt/format.h>

#include <string_view>

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

}  // namespace frugal::kernels::cuda
