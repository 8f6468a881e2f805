#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/support/json_file.h"

namespace frugal::kernels {

/// A folder of JSON files inside the program, which go by their names: hardware/NAME.json, called a
/// machine in messages.
struct NamedFolder {
  std::string_view path, what;

  std::vector<std::string> names() const;
};

/// True for a file's path, which contains a slash or ends in .json; false for a name.
bool is_path(const std::string& name_or_path);

struct NamedFile {
  nlohmann::json content;
  std::string name;  ///< in messages
};
/// Throws InputError; for an unknown name with the nearest ones.
NamedFile find_file(const NamedFolder& folder, const std::string& name_or_path);
/// The file that a key names, beside its own where it is a path. That there is none is the mistake
/// of the file that names it.
NamedFile file_named_by(const JsonObject& object, std::string_view key, const NamedFolder& folder);

}  // namespace frugal::kernels
