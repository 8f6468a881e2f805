// The driver's virtual memory, which programs find by name.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/shared.h"
#include "tests/emulator/streams.h"

namespace {

namespace arena = emulator::arena;

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUresult result(bool possible) {
  if (emulator::state() != cudaSuccess) return static_cast<CUresult>(emulator::state());
  return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
bool exists(int device) { return device >= 0 && device < emulator::gpu().count; }

}  // namespace

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const bool known = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  *value = emulator::gpu().virtual_memory ? 1 : 0;
  return known && exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags /*which*/) {
  *bytes = arena::physical_page;
  return exists(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr* begin, size_t bytes, size_t /*alignment*/,
                             CUdeviceptr /*wanted*/, unsigned long long flags) {
  const emulator::Call call;
  if (static_cast<int64_t>(bytes) > emulator::gpu().largest_block) emulator::gpu().computes = false;
  *begin = reinterpret_cast<CUdeviceptr>(arena::reserve(emulator::current_gpu(), bytes));
  return result(*begin != 0 && flags == 0);
}

CUresult cuMemAddressFree(CUdeviceptr begin, size_t bytes) {
  const emulator::Call call;
  return result(arena::free_addresses(at(begin), bytes));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  const emulator::Call call;
  if (bytes != arena::physical_page || flags != 0 || !exists(properties->location.id) ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = arena::create_page(properties->location.id);
  return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : result(true);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const emulator::Call call;
  return result(arena::release_page(handle));
}

CUresult cuMemMap(CUdeviceptr begin, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const emulator::Call call;
  return result(bytes == arena::physical_page && offset == 0 && flags == 0 &&
                arena::map(at(begin), handle));
}

CUresult cuMemUnmap(CUdeviceptr begin, size_t bytes) {
  const emulator::Call call;
  return result(arena::unmap(at(begin), bytes));
}

CUresult cuMemSetAccess(CUdeviceptr begin, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  const emulator::Call call;
  const bool known = std::all_of(descriptions, descriptions + count, [](const auto& one) {
    return exists(one.location.id) && one.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  });
  return result(known && arena::allow(at(begin), bytes));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return exists(device) && exists(peer) ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::array<std::pair<std::string_view, void*>, 9> all = {
      {{"cuDeviceGetAttribute", reinterpret_cast<void*>(&cuDeviceGetAttribute)},
       {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&cuMemGetAllocationGranularity)},
       {"cuMemAddressReserve", reinterpret_cast<void*>(&cuMemAddressReserve)},
       {"cuMemAddressFree", reinterpret_cast<void*>(&cuMemAddressFree)},
       {"cuMemCreate", reinterpret_cast<void*>(&cuMemCreate)},
       {"cuMemRelease", reinterpret_cast<void*>(&cuMemRelease)},
       {"cuMemMap", reinterpret_cast<void*>(&cuMemMap)},
       {"cuMemUnmap", reinterpret_cast<void*>(&cuMemUnmap)},
       {"cuMemSetAccess", reinterpret_cast<void*>(&cuMemSetAccess)}}};
  const auto found =
      std::ranges::find(all, std::string_view(name), &decltype(all)::value_type::first);
  *result = found == all.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  *function = found == all.end() ? nullptr : found->second;
  return cudaSuccess;
}
