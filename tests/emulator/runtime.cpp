// The emulated GPUs and their memory, as CUDA's runtime has them.
#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/shared.h"
#include "tests/emulator/streams.h"

namespace emulator {

void fault(const char* what) {
  std::fprintf(stderr, "emulator: %s\n", what);
  std::abort();
}

void fault_of_system(const char* what) {
  std::perror(what);
  std::abort();
}

int setting(const char* name, int otherwise, int most) {
  const char* const wanted = std::getenv(name);
  if (wanted == nullptr) return otherwise;
  int number = -1;
  const char* const end = wanted + std::strlen(wanted);
  if (std::from_chars(wanted, end, number).ptr != end || number < 0 || number > most) {
    std::fprintf(stderr, "emulator: %s is %s, and not from 0 to %d\n", name, wanted, most);
    std::abort();
  }
  return number;
}

namespace {

/// The numbers that CUDA_VISIBLE_DEVICES has, up to the first that is none; all where it is not
/// set.
std::vector<int> visible_of(int there) {
  std::vector<int> numbers;
  const char* const wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream words(wanted == nullptr ? "" : wanted);
  if (wanted == nullptr)
    for (int i = 0; i < there; ++i) numbers.push_back(i);
  int number = 0;
  for (char comma = ','; comma == ',' && words >> number && number >= 0 && number < there;
       words >> comma)
    numbers.push_back(number);
  return numbers;
}

Gpu from_environment() {
  const std::vector<int> visible = visible_of(setting("FRUGAL_EMULATED_GPUS", 1, most_gpus));
  const char* const loading = std::getenv("CUDA_MODULE_LOADING");
  return {.computes = setting("FRUGAL_EMULATED_COMPUTE", 1, 1) != 0,
          .count = static_cast<int>(visible.size()),
          .visible = visible,
          .loads_at_first = loading != nullptr && std::string_view(loading) == "EAGER",
          .largest_block = int64_t{setting("FRUGAL_EMULATED_LARGEST", INT_MAX, INT_MAX)} << 20};
}

}  // namespace

Gpu& gpu() {
  static Gpu all = from_environment();
  return all;
}

int number_on_machine(int device) {
  const auto index = static_cast<size_t>(device);
  return index < gpu().visible.size() ? gpu().visible[index] : device;
}

namespace {

thread_local cudaError_t last = cudaSuccess;
thread_local int current = 0;

bool exists(int device) { return device >= 0 && device < gpu().count; }

/// True if a copy's end may be where `kind` says that it is.
bool is_device(const void* address, size_t bytes) { return arena::contains(address, bytes); }
bool fits(const void* address, size_t bytes, bool device) {
  return device ? is_device(address, bytes) : !arena::touches(address);
}

bool possible(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault)
    return (is_device(to, bytes) || !arena::touches(to)) &&
           (is_device(from, bytes) || !arena::touches(from));
  return fits(to, bytes, kind != cudaMemcpyDeviceToHost) &&
         fits(from, bytes, kind != cudaMemcpyHostToDevice);
}

}  // namespace

int current_gpu() { return current; }

/// Memory goes when the GPU has done what was issued, and no kernel of a peer's spins that may
/// reach it.
void wait_to_free() {
  cudaDeviceSynchronize();
  execute_until("cudaFree", [] { return !anything_held(); });
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

}  // namespace emulator

namespace {

struct ErrorWords {
  cudaError_t error;
  const char *name, *text;
};

constexpr ErrorWords errors_in_words[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
};

ErrorWords in_words(cudaError_t error) {
  for (const ErrorWords& known : errors_in_words)
    if (known.error == error) return known;
  return {error, "cudaError", "an error"};
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) { return in_words(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return in_words(error).name; }

cudaError_t cudaGetLastError() {
  const emulator::Call call;
  const cudaError_t own = std::exchange(emulator::last, cudaSuccess);
  return emulator::state() != cudaSuccess ? emulator::state() : own;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::gpu().count;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const char* const named = std::getenv("FRUGAL_EMULATED_NAME");
  const std::string_view name = named ? named : "emulated GPU (no hardware; times mean nothing)";
  if (!emulator::exists(device)) return emulator::remember(cudaErrorInvalidDevice);
  *properties = {.name = {},
                 .uuid = {},
                 .major = 9,
                 .minor = 0,
                 .totalGlobalMem = static_cast<size_t>(emulator::gpu().memory),
                 .l2CacheSize = 50 << 20,
                 .multiProcessorCount = emulator::gpu().multiprocessors,
                 .sharedMemPerBlockOptin = emulator::most_shared_bytes};
  std::copy_n(name.begin(), std::min(name.size(), sizeof properties->name - 1), properties->name);
  properties->uuid.bytes[15] = static_cast<char>(emulator::number_on_machine(device));
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const emulator::Call call;
  if (!emulator::exists(device)) return emulator::remember(cudaErrorInvalidDevice);
  emulator::current = device;
  return emulator::state();
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  const emulator::Call call;
  if (emulator::state() != cudaSuccess) return emulator::state();
  if (static_cast<int64_t>(bytes) > emulator::gpu().largest_block) emulator::gpu().computes = false;
  *address = emulator::arena::allocate(emulator::current, bytes);
  return *address == nullptr ? emulator::remember(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  const emulator::Call call;
  if (address == nullptr) return emulator::state();
  emulator::wait_to_free();
  if (!emulator::arena::release(address)) return emulator::remember(cudaErrorInvalidValue);
  return emulator::state();
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  const emulator::Call call;
  constexpr size_t page = 4096;
  *address = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  return *address == nullptr ? emulator::remember(cudaErrorMemoryAllocation) : emulator::state();
}

cudaError_t cudaFreeHost(void* address) {
  const emulator::Call call;
  emulator::wait_to_free();
  std::free(address);
  return emulator::state();
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const emulator::Call call;
  *total = static_cast<size_t>(emulator::gpu().memory);
  *free = *total - emulator::arena::in_use(emulator::current);
  return emulator::state();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const emulator::Call call;
  if (!emulator::possible(to, from, bytes, kind)) return emulator::remember(cudaErrorInvalidValue);
  const cudaError_t before = emulator::state();
  // Between blocks of the GPU it is computation.
  if (emulator::gpu().computes || !emulator::is_device(to, bytes) ||
      !emulator::is_device(from, bytes))
    emulator::push(stream, [=] { std::memcpy(to, from, bytes); });
  return before;
}

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  const emulator::Call call;
  if (!emulator::is_device(to, bytes)) return emulator::remember(cudaErrorInvalidValue);
  const cudaError_t before = emulator::state();
  if (emulator::gpu().computes) emulator::push(stream, [=] { std::memset(to, byte, bytes); });
  return before;
}
