#include "harness/cli/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "harness/place/processes.h"
#include "harness/record/record_file.h"
#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal::harness {

std::vector<Record> records_in(const std::string& folder) {
  bool truncated = false;
  std::vector<Record> records = read_records(folder, truncated);
  if (truncated)
    fmt::print(stderr, "frugal: the last line of {}'s records was cut off; it is left out\n",
               folder);
  return records;
}

void check_distinct(const std::vector<FlagFile>& outputs, const std::vector<FlagFile>& inputs) {
  // By what paths lead to: "x", "./x" and a link to it are one file. One that is not there yet has
  // a folder that is.
  std::map<std::filesystem::path, FlagFile> seen;
  const auto place = [](const FlagFile& file) {
    std::error_code unreadable;  // whoever opens it says so
    const auto absolute = std::filesystem::absolute(file.path);
    const auto canonical = std::filesystem::weakly_canonical(absolute, unreadable);
    return unreadable ? absolute : canonical;
  };
  for (const FlagFile& input : inputs)
    if (!input.path.empty()) seen.try_emplace(place(input), input);
  for (const FlagFile& output : outputs) {
    if (output.path.empty()) continue;
    const auto [other, is_new] = seen.try_emplace(place(output), output);
    if (!is_new)
      throw InputError(fmt::format("{} and {} are both {}; give two files", output.flag,
                                   other->second.flag, output.path));
  }
}

void check_new_file(const std::string& flag, const std::string& path,
                    const std::string& otherwise) {
  if (!Processes::writes()) return;  // several that tried would meet each other's
  std::FILE* const file = std::fopen(path.c_str(), "wx");
  if (file != nullptr) {
    std::fclose(file);
    std::filesystem::remove(path);
    return;
  }
  const std::error_code error(errno, std::generic_category());
  if (error == std::errc::file_exists)
    throw InputError(fmt::format("{}: {} exists already; {}", flag, path, otherwise));
  throw CannotWrite(flag + ": " + path, error.value());
}

void check_output_file(const std::string& flag, const std::string& path, bool force) {
  if (is_folder(path)) throw InputError(fmt::format("{}: {} is a folder; give a file", flag, path));
  // A link is replaced itself, wherever it leads.
  std::error_code unreadable;
  if (!force || !std::filesystem::exists(std::filesystem::symlink_status(path, unreadable)))
    check_new_file(flag, path, "choose another name, or replace it with --force");
}

void write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  std::error_code error;
  if ((out << text) && out.flush()) std::filesystem::rename(part, path, error);
  if (out && !error) return;
  const int why = error ? error.value() : errno;
  std::filesystem::remove(part, error);
  throw CannotWrite(path, why);
}

}  // namespace frugal::harness
