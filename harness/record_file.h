#pragma once
#include <string>
#include <vector>

#include "harness/record.h"

namespace frugal {

/// records.jsonl of an output folder: one record per line, appended and flushed to the disk when
/// its case ends, never rewritten.
class RecordFile {
 public:
  static constexpr const char* name = "records.jsonl";

  /// Makes the folder where there is none, and reads what it has. Throws InputError where it cannot
  /// be written or a line that is not the last is not a record. A last line without its end, which
  /// a killed run leaves, is ignored: see truncated().
  explicit RecordFile(const std::string& folder);
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  const std::vector<Record>& records() const { return records_; }
  bool truncated() const { return truncated_; }

  /// Appends one line and returns when it is on the disk. Throws InputError where that fails.
  void append(const Record& record);
  /// Keeps what there is under the first free name records.1.jsonl, records.2.jsonl, … and starts
  /// an empty file. Returns the new name, empty where there was nothing to keep.
  std::string set_aside();

 private:
  void open();

  std::string folder_, path_;
  int file_ = -1;
  bool truncated_ = false;
  std::vector<Record> records_;
};

/// The last record of the same case and fingerprint that is final (was not interrupted), or null.
const Record* last_final(const std::vector<Record>& records, const Record& like);

/// The records of a folder without writing to it. Throws InputError where it has none.
std::vector<Record> read_records(const std::string& folder, bool& truncated);

}  // namespace frugal
