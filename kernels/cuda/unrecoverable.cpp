#include "kernels/cuda/unrecoverable.h"

#include <algorithm>
#include <array>

namespace frugal::kernels::cuda {

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

}  // namespace frugal::kernels::cuda
