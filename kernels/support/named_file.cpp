#include "kernels/support/named_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "kernels/support/embedded.h"
#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

constexpr std::string_view extension = ".json";

}  // namespace

std::vector<std::string> NamedFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [file, text] : embedded_files()) {
    if (file.starts_with(path) && file.ends_with(extension))
      names.push_back(file.substr(path.size(), file.size() - path.size() - extension.size()));
  }
  return names;
}

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(extension);
}

NamedFile find_file(const NamedFolder& folder, const std::string& name_or_path) {
  if (is_path(name_or_path)) return {load_json(name_or_path), name_or_path};
  const std::string path = fmt::format("{}{}{}", folder.path, name_or_path, extension);
  if (const auto text = embedded_file(path)) return {parse_json(*text, path), path};
  const auto names = folder.names();
  const auto near = nearest(name_or_path, names);
  throw InputError(
      fmt::format("no {0} is called \"{1}\"; {2} {3}, or give the path of a {0} file (FILE.json)",
                  folder.what, name_or_path, near.empty() ? "known are" : "did you mean",
                  fmt::join(near.empty() ? names : near, ", ")));
}

NamedFile file_named_by(const JsonObject& object, std::string_view key, const NamedFolder& folder) {
  const auto name = object.require<std::string>(key);
  const auto beside = std::filesystem::path(object.file()).parent_path() / name;
  try {
    return find_file(folder, is_path(name) ? beside.lexically_normal().string() : name);
  } catch (const InputError& error) {
    object.fail(key, fmt::format("is \"{}\": {}", name, error.what()));
  }
}

}  // namespace frugal::kernels
