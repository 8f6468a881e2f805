#pragma once
#include <memory>

#include "kernels/device.h"

namespace frugal {

/// The kernels of kernels/cuda/ops on the processor, as a device: matrix products as cuBLASLt would
/// be asked for them, fused attention by the CPU device. `multiprocessors` decides how many blocks
/// share the work.
std::unique_ptr<Device> make_emulated_device(int multiprocessors, uint64_t seed);

}  // namespace frugal
