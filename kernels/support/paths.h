#pragma once
#include <filesystem>
#include <system_error>

namespace frugal::kernels {

/// True if a path leads to a folder, or to anything. One that cannot be followed, such as a name
/// that is too long or a link to itself, leads to nothing: whoever opens it says why.
inline bool is_folder(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
}
inline bool is_there(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

}  // namespace frugal::kernels
