#pragma once
#include <cstddef>
#include <string>

namespace frugal::kernels {

/// "9.1.0" of 90100, as NVIDIA's libraries count their versions; of 8905, as they did once,
/// "8.9.5".
inline std::string library_version(size_t number) {
  const size_t major = number < 10000 ? 1000 : 10000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

}  // namespace frugal::kernels
