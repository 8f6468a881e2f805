#include "harness/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal {
namespace {

namespace fs = std::filesystem;

std::string path_in(const std::string& folder) { return (fs::path(folder) / RecordFile::name); }

std::vector<Record> read(const std::string& path, bool& truncated) {
  std::ifstream in(path, std::ios::binary);
  std::vector<Record> records;
  int number = 0;
  truncated = false;
  for (std::string line; std::getline(in, line);) {
    const std::string name = fmt::format("{}: line {}", path, ++number);
    if (in.eof()) {  // a whole record ends with its line
      truncated = true;
      break;
    }
    if (line.empty()) continue;  // where the end of a truncated line was written later
    try {
      records.push_back(record_from_json(parse_json(line, name), name));
    } catch (const InputError&) {
      // Appending to a file with a truncated line ends that line: what then cannot be parsed is it.
      if (nlohmann::json::accept(line)) throw;
      truncated = true;
    }
  }
  return records;
}

[[noreturn]] void cannot_write(const std::string& what, int error) {
  throw InputError(fmt::format("--out: {} cannot be written ({}); choose a folder that can", what,
                               std::strerror(error)));
}

}  // namespace

RecordFile::RecordFile(const std::string& folder) : folder_(folder), path_(path_in(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) cannot_write(folder_, error.value());
  records_ = read(path_, truncated_);
  open();
  // The next record must not continue a line that was cut off.
  if (truncated_) {
    std::ifstream in(path_, std::ios::binary);
    in.seekg(-1, std::ios::end);
    if (in.get() != '\n' && ::write(file_, "\n", 1) != 1) cannot_write(path_, errno);
  }
}

RecordFile::~RecordFile() {
  if (file_ >= 0) ::close(file_);
}

void RecordFile::open() {
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) cannot_write(path_, errno);
}

void RecordFile::append(const Record& record) {
  const std::string line = to_json(record).dump() + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(file_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_, errno);
    done += static_cast<size_t>(written);
  }
  if (::fsync(file_) != 0 && errno != EINVAL) cannot_write(path_, errno);
  records_.push_back(record);
}

std::string RecordFile::set_aside() {
  if (fs::file_size(path_) == 0) return "";
  std::string kept;
  for (int i = 1; kept.empty() || fs::exists(fs::path(folder_) / kept); ++i)
    kept = fmt::format("records.{}.jsonl", i);
  ::close(file_);
  fs::rename(path_, fs::path(folder_) / kept);
  records_.clear();
  truncated_ = false;
  open();
  return kept;
}

const Record* last_final(const std::vector<Record>& records, const Record& like) {
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Record& r) {
    return r.artifact == like.artifact && r.case_id == like.case_id &&
           r.fingerprint == like.fingerprint && r.status != Status::interrupted;
  });
  return found == records.rend() ? nullptr : &*found;
}

std::vector<Record> read_records(const std::string& folder, bool& truncated) {
  const std::string path = path_in(folder);
  if (!fs::exists(path))
    throw InputError(
        fmt::format("{}: there is no {} in it; give a folder that `frugal reproduce` "
                    "or `frugal measure` wrote with --out",
                    folder, RecordFile::name));
  return read(path, truncated);
}

}  // namespace frugal
