#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/support/error.h"

namespace frugal::kernels {

/// FRUGAL_SIMD has this value until the scope ends; devices made meanwhile use these instructions.
class CpuLevel {
 public:
  explicit CpuLevel(const std::string& level) {
    if (const char* value = std::getenv(variable)) before_ = value;
    setenv(variable, level.c_str(), 1);
  }
  CpuLevel(const CpuLevel&) = delete;
  CpuLevel& operator=(const CpuLevel&) = delete;
  ~CpuLevel() {
    if (before_) {
      setenv(variable, before_->c_str(), 1);
    } else {
      unsetenv(variable);
    }
  }

 private:
  static constexpr const char* variable = "FRUGAL_SIMD";
  std::optional<std::string> before_;
};

/// The levels that this processor and this build have; baseline always.
inline std::vector<std::string> cpu_levels() {
  std::vector<std::string> levels;
  for (const std::string level : {"baseline", "avx2", "avx512", "avx512bf16"}) {
    const CpuLevel scope(level);
    try {
      choose_kernels();
      levels.push_back(level);
    } catch (const InputError&) {
      if (level == "baseline") throw;
    }
  }
  return levels;
}

/// test(device) at each of them.
template <class Test>
void at_each_level(const Test& test) {
  for (const std::string& level : cpu_levels()) {
    SCOPED_TRACE(level);
    const CpuLevel scope(level);
    CpuDevice device(1);
    test(device);
  }
}

}  // namespace frugal::kernels
