#include "harness/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal {
namespace {

namespace fs = std::filesystem;

std::string path_in(const std::string& folder) { return (fs::path(folder) / RecordFile::name); }

/// What a line of the file is. Only the last one may be cut off: it lacks its end and begins like
/// a record, or is one.
struct Line {
  enum class Kind : uint8_t { record, cut, bad };
  Kind kind = Kind::record;
  Record record;
  std::string error;  // of a bad one
};

Line parse(const std::string& text, bool ended, const std::string& name) {
  try {
    Line line{Line::Kind::record, record_from_json(nlohmann::json::parse(text), name), ""};
    if (!ended) line.kind = Line::Kind::cut;
    return line;
  } catch (const nlohmann::json::parse_error& e) {
    // `byte` counts from 1 and is one beyond the text where that ends too early.
    const bool early = e.byte > text.size();
    if (early && !ended && text.front() == '{') return {Line::Kind::cut, {}, ""};
    return {Line::Kind::bad,
            {},
            fmt::format("{} is not JSON from column {} on; take the line out, or choose another "
                        "folder",
                        name, std::max<size_t>(e.byte, 1))};
  } catch (const nlohmann::json::exception& e) {
    return {Line::Kind::bad, {}, fmt::format("{} is not a record: {}", name, e.what())};
  } catch (const InputError& e) {
    return {Line::Kind::bad, {}, e.what()};
  }
}

struct Content {
  std::vector<Record> records;
  size_t whole = 0;  // bytes before a line that was cut off
  bool truncated = false;
};

Content read(const std::string& path) {
  if (!fs::is_regular_file(path))
    throw InputError(fmt::format("{} is not a file; choose another folder", path));
  const std::string text = read_text(path);
  Content content;
  for (int number = 1; content.whole < text.size(); ++number) {
    const size_t end = text.find('\n', content.whole);
    const bool ended = end != std::string::npos;
    Line line = parse(text.substr(content.whole, end - content.whole), ended,
                      fmt::format("{}: line {}", path, number));
    if (line.kind == Line::Kind::bad) throw InputError(line.error);
    content.truncated = line.kind == Line::Kind::cut;
    if (content.truncated) break;
    content.records.push_back(std::move(line.record));
    content.whole = end + 1;
  }
  return content;
}

[[noreturn]] void cannot_write(const std::string& what, int error) {
  throw InputError(fmt::format("--out: {} cannot be written ({}); choose a folder that can", what,
                               std::strerror(error)));
}

}  // namespace

RecordFile::Descriptor::Descriptor(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot_write(folder, error.value());
  if (is_there(path) && !fs::is_regular_file(path))
    throw InputError(fmt::format("{} is not a file; choose another folder", path));
  value_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (value_ < 0) cannot_write(path, errno);
  // A file system without locks is no reason to stop.
  if (::flock(value_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(value_);
    throw InputError(fmt::format(
        "--out: another run of frugal writes {}; wait until it ends, or choose another folder",
        path));
  }
}

RecordFile::Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

RecordFile::RecordFile(const std::string& folder)
    : folder_(folder), path_(path_in(folder)), file_(path_) {
  Content content = read(path_);
  records_ = std::move(content.records);
  truncated_ = content.truncated;
  // The next record must not continue a line that was cut off.
  if (truncated_ && ::ftruncate(file_.get(), static_cast<off_t>(content.whole)) != 0)
    cannot_write(path_, errno);
}

void RecordFile::append(const Record& record) {
  if (!path_.empty()) write(record);
  records_.push_back(record);
}

void RecordFile::write(const Record& record) {
  const std::string line = to_json(record).dump() + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(file_.get(), line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_, errno);
    done += static_cast<size_t>(written);
  }
  if (::fsync(file_.get()) != 0 && errno != EINVAL) cannot_write(path_, errno);
}

std::string RecordFile::set_aside() {
  if (path_.empty() || fs::file_size(path_) == 0) return "";
  std::string kept;
  for (int i = 1; kept.empty() || fs::exists(fs::path(folder_) / kept); ++i)
    kept = fmt::format("records.{}.jsonl", i);
  fs::rename(path_, fs::path(folder_) / kept);
  file_ = Descriptor(path_);
  records_.clear();
  truncated_ = false;
  return kept;
}

const Record* last_final(const std::vector<Record>& records, const Record& like) {
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Record& r) {
    return r.artifact == like.artifact && r.case_id == like.case_id &&
           r.fingerprint == like.fingerprint && r.status != Status::interrupted &&
           (r.status != Status::skipped || like.status == Status::skipped);
  });
  return found == records.rend() ? nullptr : &*found;
}

std::vector<Record> read_records(const std::string& folder, bool& truncated) {
  const std::string path = path_in(folder);
  if (!is_there(path))
    throw InputError(
        fmt::format("{}: there is no {} in it; give a folder that `frugal reproduce` "
                    "or `frugal measure` wrote with --out",
                    folder, RecordFile::name));
  Content content = read(path);
  truncated = content.truncated;
  return std::move(content.records);
}

}  // namespace frugal
