#include "kernels/cpu/dispatch.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "kernels/support/error.h"

namespace frugal::kernels {

namespace baseline {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace avx512bf16 {
extern const Kernels kernels;
}

namespace {

// What x86-64-v3 and x86-64-v4 add, as far as compilers use it in these kernels.
#ifdef FRUGAL_HAVE_AVX2
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
}
#endif
#ifdef FRUGAL_HAVE_AVX512
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#endif
#ifdef FRUGAL_HAVE_AVX512BF16
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16") != 0; }
#endif

struct Level {
  std::string_view name;
  const Kernels* kernels;  // null where they were not built
  bool supported;
};

std::array<Level, 4> levels() {
  return {{
#ifdef FRUGAL_HAVE_AVX512BF16
      {"avx512bf16", &avx512bf16::kernels, has_avx512bf16()},
#else
      {"avx512bf16", nullptr, false},
#endif
#ifdef FRUGAL_HAVE_AVX512
      {"avx512", &avx512::kernels, has_avx512()},
#else
      {"avx512", nullptr, false},
#endif
#ifdef FRUGAL_HAVE_AVX2
      {"avx2", &avx2::kernels, has_avx2()},
#else
      {"avx2", nullptr, false},
#endif
      {"baseline", &baseline::kernels, true},
  }};
}

Level choose() {
  const std::string_view wanted = wanted_instructions();
  for (const Level& level : levels()) {
    if (wanted.empty() ? level.supported : level.name == wanted) {
      if (level.supported) return level;
      throw InputError(fmt::format(
          "environment variable FRUGAL_SIMD={}: this processor does not have these instructions; "
          "unset it to use the best that it has",
          wanted));
    }
  }
  throw InputError(
      fmt::format("environment variable FRUGAL_SIMD={}: unknown; choose baseline, avx2, avx512 or "
                  "avx512bf16, or unset it",
                  wanted));
}

}  // namespace

const Kernels& choose_kernels() { return *choose().kernels; }

std::string_view choose_instructions() { return choose().name; }

std::string_view wanted_instructions() {
  const char* const variable = std::getenv("FRUGAL_SIMD");
  return variable == nullptr ? "" : variable;
}

}  // namespace frugal::kernels
