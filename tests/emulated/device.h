#pragma once
#include <memory>

#include "kernels/device.h"

namespace frugal::kernels {

/// The kernels of kernels/cuda/ops and its products on the emulated GPU, each executed at once, in
/// memory of the host that has a request's size and no more. Fused attention by the CPU device.
/// `multiprocessors` decides how many blocks share the work.
std::unique_ptr<Device> make_emulated_device(int multiprocessors, uint64_t seed);

}  // namespace frugal::kernels
