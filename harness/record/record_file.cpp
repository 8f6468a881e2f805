#include "harness/record/record_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/settings/config_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
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
    Line line{Line::Kind::record, record_from_json(parse_json_strictly(text, name), name), ""};
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

/// Whether all that decides what two records have to say is the same.
bool are_alike(const Record& a, const Record& b) {
  return a.artifact == b.artifact && a.case_id == b.case_id && a.fingerprint == b.fingerprint;
}

}  // namespace

RecordFile::RecordFile(const std::string& folder)
    : folder_(folder), path_(path_in(folder)), file_("--out", path_) {
  Content content = read(path_);
  records_ = std::move(content.records);
  truncated_ = content.truncated;
  // The next record must not continue a line that was cut off.
  if (truncated_) file_.shorten(content.whole);
}

void RecordFile::append(const Record& record) {
  if (!path_.empty()) file_.append(to_json(record).dump());
  records_.push_back(record);
}

std::string RecordFile::set_aside() {
  if (path_.empty() || fs::file_size(path_) == 0) return "";
  std::string kept;
  for (int i = 1; kept.empty() || fs::exists(fs::path(folder_) / kept); ++i)
    kept = fmt::format("records.{}.jsonl", i);
  fs::rename(path_, fs::path(folder_) / kept);
  file_ = LineFile("--out", path_);
  records_.clear();
  truncated_ = false;
  return kept;
}

const Record* last_final(const std::vector<Record>& records, const Record& like) {
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Record& r) {
    return are_alike(r, like) && r.status != Status::interrupted &&
           (r.status != Status::skipped || like.status == Status::skipped);
  });
  return found == records.rend() ? nullptr : &*found;
}

bool interrupted_since(const std::vector<Record>& records, const Record& record) {
  return std::any_of(
      records.begin() + (&record - records.data()), records.end(),
      [&](const Record& r) { return are_alike(r, record) && r.status == Status::interrupted; });
}

const Record* last_of_case(const std::vector<Record>& records, const Record& like) {
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Record& r) {
    return r.artifact == like.artifact && r.case_id == like.case_id && r.what == like.what &&
           setting_of(r) == setting_of(like) && r.options == like.options &&
           to_json(r.config) == to_json(like.config);
  });
  return found == records.rend() ? nullptr : &*found;
}

std::string made_elsewhere(const Record& record, const Record& here) {
  if (record.program != here.program)
    return fmt::format("by another build (commit {})", build_of(record));
  if (record.device != here.device) return fmt::format("on another device ({})", record.device);
  return "with other values of their machine";
}

std::string to_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_json(record).dump() + "\n";
  return text;
}

std::vector<Record> records_from_text(const std::string& text) {
  std::vector<Record> records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    records.push_back(record_from_json(nlohmann::json::parse(line), "records of rank 0"));
  return records;
}

std::string records_file(const std::string& folder) {
  std::error_code none;
  return fs::is_regular_file(folder, none) ? folder : path_in(folder);
}

std::vector<Record> read_records(const std::string& folder, bool& truncated) {
  const std::string path = records_file(folder);
  if (!is_there(path))
    throw InputError(
        fmt::format("{}: {}; give a folder that `frugal reproduce` or `frugal measure` wrote with "
                    "--out, or a file of records in it",
                    folder,
                    is_there(folder) ? fmt::format("there is no {} in it", RecordFile::name)
                                     : "there is no such folder or file"));
  Content content = read(path);
  truncated = content.truncated;
  return std::move(content.records);
}

}  // namespace frugal::harness
