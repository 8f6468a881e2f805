#include "kernels/cuda/gpus.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops/launch.h"
#include "kernels/support/error.h"
#include "kernels/support/version.h"

namespace frugal::kernels {
namespace {

struct Found {
  std::vector<Gpu> gpus;
  std::string reason;  ///< why there is none
};

/// "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"
std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", dash ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

Gpu describe(int index, int driver) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .memory = static_cast<int64_t>(properties.totalGlobalMem),
          .l2 = properties.l2CacheSize,
          .multiprocessors = properties.multiProcessorCount,
          .driver = driver,
          .runtime = CUDART_VERSION,
          .uuid = text_of(properties.uuid)};
}

Found find() {
  // As many queues as there can be: streams that share one may wait for each other, and a message
  // that is received must not wait behind one that is sent. CUDA reads it when it starts.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return {{}, "there is no NVIDIA driver on this machine; use cpu or virtual"};
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return {{},
            fmt::format("the driver knows CUDA up to {}.{} and this build needs {}.{}; install a "
                        "newer driver, or use cpu or virtual",
                        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                        CUDART_VERSION % 1000 / 10)};
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    return {{},
            "there is a driver but no GPU that this program may use (see nvidia-smi and "
            "CUDA_VISIBLE_DEVICES); use cpu or virtual"};
  if (error != cudaSuccess)
    return {{},
            fmt::format("cudaGetDeviceCount: {}; use cpu or virtual", cudaGetErrorString(error))};
  Found found;
  for (int index = 0; index < count; ++index) found.gpus.push_back(describe(index, driver));
  return found;
}

const Found& found() {
  static const Found once = find();
  return once;
}

}  // namespace

std::string capability(const Gpu& gpu) { return fmt::format("{}.{}", gpu.major, gpu.minor); }

const std::vector<Gpu>& gpus() {
  if (found().gpus.empty()) throw InputError(found().reason);
  return found().gpus;
}

int64_t free_gpu_memory(int index) {
  const auto device = make_cuda_device(index);
  size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

std::string why_no_gpu() { return found().reason; }

std::string why_gpu_lost() {
  for (size_t index = 0; index < found().gpus.size(); ++index) {
    cudaError_t error = cudaSetDevice(static_cast<int>(index));
    if (error == cudaSuccess) error = cudaFree(nullptr);  // does nothing but tell
    if (cuda::unrecoverable(error))
      return fmt::format("GPU {} is lost to this process: {} ({})", index,
                         cudaGetErrorString(error), cudaGetErrorName(error));
  }
  return "";
}

std::map<std::string, std::string> cuda_libraries() {
  std::map<std::string, std::string> versions = {
      {"cuBLASLt", library_version(cublasLtGetVersion())}};
  if (const std::string cudnn = cuda::cudnn_version(); !cudnn.empty()) versions["cuDNN"] = cudnn;
  return versions;
}

void copy_on_gpu(Device& device, const View& to, const View& from) {
  const auto* gpu = dynamic_cast<const cuda::CudaDevice*>(&device);
  if (gpu == nullptr || to.bytes() != from.bytes())
    throw std::logic_error("a copy between views of different sizes, or on another device");
  gpu->make_current();
  cuda::check(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(to.bytes()),
                              cudaMemcpyDeviceToDevice, gpu->cuda_stream(Stream::compute)),
              "cudaMemcpyAsync");
}

bool collectives_load() {
  const char* const wanted = std::getenv("FRUGAL_COLLECTIVE_LOAD");
  const std::string_view text = wanted == nullptr ? "none" : wanted;
  if (text != "all" && text != "none")
    throw InputError(fmt::format("FRUGAL_COLLECTIVE_LOAD is \"{}\"; it must be all or none", text));
  return text == "all";
}

void load_by_collectives(Device& device, const CollectiveLoad& load) {
  auto* const gpu = dynamic_cast<cuda::CudaDevice*>(&device);
  if (gpu == nullptr) throw std::logic_error("a collective's load is a GPU's");
  gpu->load_by_collectives(load);
}

void load_kernels_at_first() { ::setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

std::unique_ptr<Device> make_cuda_device(int index, int most_ahead) {
  const auto count = static_cast<int>(gpus().size());
  if (index < 0 || index >= count)
    throw InputError(fmt::format("GPU {} is asked for and there are {}", index, count));
  return std::make_unique<cuda::CudaDevice>(index, most_ahead);
}

}  // namespace frugal::kernels

namespace frugal::kernels::cuda {

std::string why_never_fused(const FusedAttentionNeeds& needs) {
  constexpr int64_t unit = 8;  // elements of 16 bytes
  const std::string_view otherwise =
      needs.softcap || needs.window ? "" : ", or --attention separate";
  if (needs.type != DType::bf16)
    return fmt::format("fused attention on cuda is computed in bf16, not {}; use --type bf16{}",
                       name_of(needs.type), otherwise);
  if (needs.head_size % unit != 0)
    return fmt::format(
        "fused attention on cuda has heads of multiples of {} elements, not of {}; use other "
        "--heads or --hidden{}",
        unit, needs.head_size, otherwise);
  return "";
}

}  // namespace frugal::kernels::cuda
