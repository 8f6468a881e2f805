#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

template <class... Ops>
constexpr std::tuple<Kernel<Ops>...> table(std::tuple<Kernel<Ops>...>) {
  return {&run<Ops>...};
}

extern const Kernels kernels;
constinit const Kernels kernels{table(Kernels::All{})};

}  // namespace frugal::kernels::FRUGAL_SIMD
