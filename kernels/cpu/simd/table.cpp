#include "kernels/cpu/simd/level.h"

namespace frugal::kernels::FRUGAL_SIMD {

constinit const Kernels kernels{{run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run}};

}  // namespace frugal::kernels::FRUGAL_SIMD
