#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/record/record_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// The records of an output folder, of which a last line may be cut off.
void read_record_file(const std::string& path) {
  bool truncated = false;
  const std::vector<harness::Record> records =
      harness::read_records(std::filesystem::path(path).parent_path().string(), truncated);
  const std::vector<harness::Record> again = harness::records_from_text(harness::to_text(records));
  require_same(harness::to_json(records), harness::to_json(again));
  for (size_t i = 0; i < records.size(); ++i)
    require(harness::fingerprint_of(records[i]) == harness::fingerprint_of(again[i]),
            "another case is read again");
}

const bool record_added =
    add_target({"record", std::string("out/") + harness::RecordFile::name, read_record_file});

}  // namespace
}  // namespace frugal::testing
