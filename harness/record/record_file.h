#pragma once
#include <string>
#include <vector>

#include "harness/record/line_file.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// records.jsonl of an output folder: one record per line, appended and flushed to the disk when
/// its case ends, never rewritten. One process writes it at a time.
class RecordFile {
 public:
  static constexpr const char* name = "records.jsonl";

  /// Makes the folder where there is none, and reads what it has. A last line that was cut off, as
  /// a killed run leaves it, is taken away: see truncated(). Throws InputError where the file
  /// cannot be written, another process writes it, or it has any other line that is not a record.
  explicit RecordFile(const std::string& folder);
  /// No file: records are gone with it.
  RecordFile() = default;

  const std::vector<Record>& records() const { return records_; }
  bool truncated() const { return truncated_; }

  /// What another process has read: this one has no file.
  void known(std::vector<Record> records) { records_ = std::move(records); }

  /// Appends one line and returns when it is on the disk. Throws InputError where that fails.
  void append(const Record& record);
  /// Keeps what there is under the first free name records.1.jsonl, records.2.jsonl, … and starts
  /// an empty file. Returns the new name, empty where there was nothing to keep.
  std::string set_aside();

 private:
  std::string folder_, path_;  ///< empty: no file
  LineFile file_;
  bool truncated_ = false;
  std::vector<Record> records_;
};

/// The last record of the same case and fingerprint that is final, or null. One that was
/// interrupted is not; one that was skipped is only where `like` is to be skipped too.
const Record* last_final(const std::vector<Record>& records, const Record& like);

/// Whether the case of one of these records was run again after it, and interrupted.
bool interrupted_since(const std::vector<Record>& records, const Record& record);

/// The last record of the same case, configuration and setting, whatever program made it and on
/// whatever machine; or null.
const Record* last_of_case(const std::vector<Record>& records, const Record& like);
/// What distinguishes such a record from one of this program here: "by another build (commit C)".
std::string made_elsewhere(const Record& record, const Record& here);

/// A line for each, as the file has them; and back.
std::string to_text(const std::vector<Record>& records);
std::vector<Record> records_from_text(const std::string& text);

/// The records of a folder, or of a file, without writing to it; `truncated` says whether a last
/// line was cut off. Throws InputError where there are none, or for any other line that is not a
/// record.
std::vector<Record> read_records(const std::string& folder, bool& truncated);
/// Where a folder's records are; a file is itself.
std::string records_file(const std::string& folder);

}  // namespace frugal::harness
