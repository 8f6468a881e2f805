#include "harness/settings/paths.h"

#include <filesystem>

#include "kernels/support/paths.h"

namespace frugal::harness {

std::string file_name(const std::string& path) {
  const std::filesystem::path whole = path;
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string description_name(const std::string& path) {
  const std::filesystem::path file = path;
  const bool of_folder = file.filename() == "config.json" && file.has_parent_path();
  return file_name(of_folder ? file.parent_path().string() : path);
}

std::string without_folder(const std::string& text) {
  const size_t name = text.find(':') + 1;  // 0 where there is none
  return text.substr(0, name) + file_name(text.substr(name));
}

std::string described_in(const std::string& name) {
  if (is_folder(name)) return (std::filesystem::path(name) / "config.json").string();
  return name.find('/') != std::string::npos || name.ends_with(".json") ? name : "";
}

std::string shell_word(const std::string& text) {
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@#";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace frugal::harness
