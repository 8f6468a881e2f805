#include "kernels/cpu/simd/level.h"

namespace frugal::FRUGAL_SIMD {

constinit const Kernels kernels{{run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run},
                                {run}, {run}, {run}, {run}, {run}, {run}, {run}, {run}};

}  // namespace frugal::FRUGAL_SIMD
