#include "harness/place/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace frugal::harness::nvml {
namespace {

constexpr const char* file = "libnvidia-ml.so.1";

}  // namespace

Library::Library() : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) {
    why_not_ = fmt::format("{} is not there, which comes with NVIDIA's driver", file);
    return;
  }
  const auto init = reinterpret_cast<int (*)()>(find("nvmlInit_v2"));
  const int error = init == nullptr ? -1 : init();
  if (error != 0) why_not_ = fmt::format("{} does not start (error {})", file, error);
}

Library::~Library() {
  if (handle_ == nullptr) return;
  if (const auto shut_down = reinterpret_cast<int (*)()>(find("nvmlShutdown"));
      why_not_.empty() && shut_down != nullptr)
    shut_down();
  ::dlclose(handle_);
}

void* Library::find(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

std::optional<std::string> Library::driver() const {
  const auto function =
      reinterpret_cast<int (*)(char*, unsigned)>(find("nvmlSystemGetDriverVersion"));
  std::array<char, 80> text{};
  if (function == nullptr || function(text.data(), text.size()) != 0) return std::nullopt;
  return std::string(text.data());
}

}  // namespace frugal::harness::nvml
