#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace frugal::kernels {

/// Text files that were compiled into the program (cmake/Embed.cmake), by their path from the root.
inline std::map<std::string, std::string_view>& embedded_files() {
  static std::map<std::string, std::string_view> files;
  return files;
}

struct EmbeddedFile {
  EmbeddedFile(const char* path, const char* bytes, size_t size) {
    embedded_files().insert_or_assign(path, std::string_view(bytes, size));
  }
};

inline std::optional<std::string_view> embedded_file(const std::string& path) {
  const auto found = embedded_files().find(path);
  if (found == embedded_files().end()) return std::nullopt;
  return found->second;
}

}  // namespace frugal::kernels
