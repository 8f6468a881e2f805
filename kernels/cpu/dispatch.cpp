#include "kernels/cpu/dispatch.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "kernels/support/error.h"

namespace frugal {

namespace baseline {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

namespace {

struct Level {
  std::string_view name;
  const Kernels* kernels;  // null where they were not built
  bool supported;
};

std::array<Level, 3> levels() {
  return {{
#ifdef FRUGAL_HAVE_AVX512
      {"avx512", &avx512::kernels, __builtin_cpu_supports("x86-64-v4") != 0},
#else
      {"avx512", nullptr, false},
#endif
#ifdef FRUGAL_HAVE_AVX2
      {"avx2", &avx2::kernels, __builtin_cpu_supports("x86-64-v3") != 0},
#else
      {"avx2", nullptr, false},
#endif
      {"baseline", &baseline::kernels, true},
  }};
}

}  // namespace

const Kernels& choose_kernels() {
  const char* const variable = std::getenv("FRUGAL_SIMD");
  const std::string_view wanted = variable == nullptr ? "" : variable;
  for (const Level& level : levels()) {
    if (wanted.empty() ? level.supported : level.name == wanted) {
      if (level.supported) return *level.kernels;
      throw InputError(fmt::format(
          "environment variable FRUGAL_SIMD={}: this processor does not have these instructions; "
          "unset it to use the best that it has",
          wanted));
    }
  }
  throw InputError(fmt::format(
      "environment variable FRUGAL_SIMD={}: unknown; choose baseline, avx2 or avx512, or unset it",
      wanted));
}

}  // namespace frugal
