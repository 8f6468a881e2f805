#pragma once
#include <string_view>

#include "kernels/cpu/simd/kernels.h"

namespace frugal::kernels {

/// The kernels for the widest instruction set that this processor has, or for the one that the
/// environment variable FRUGAL_SIMD (baseline, avx2, avx512 or avx512bf16) asks for. Throws
/// InputError when that one is unknown, not supported by the processor, or not built.
const Kernels& choose_kernels();
/// The instruction set of choose_kernels(): "avx2". Throws as it does.
std::string_view choose_instructions();
/// Value of FRUGAL_SIMD; empty if it is not set.
std::string_view wanted_instructions();

}  // namespace frugal::kernels
