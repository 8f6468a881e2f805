#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// Outcome of a recorded value, or of all of a record's, when its case was run again.
enum class Again : uint8_t { equal, differs, not_judged, not_run };
constexpr Names names_of(Again) { return {"equal", "differs", "not judged", "not run"}; }

/// A record beside one of the same case, run again.
struct RerunRecord {
  struct Value {
    std::string name;  ///< keys in the record with dots between: "memory.peak_total"
    std::string recorded, now;
    Again verdict = Again::differs;
    std::string change = {};  ///< "+3.2 %", where both are numbers
  };

  size_t number = 0;  ///< of the record in its file, from 0
  const Record* recorded = nullptr;
  std::string reason = {};  ///< why it was not run
  std::optional<Record> now = {};
  size_t equal = 0;                ///< values that are the same
  std::vector<Value> values = {};  ///< those that are not, and those that are not judged

  Again verdict() const;
};

/// Every value of a virtual record is judged; of the cpu what is counted and computed, on the same
/// device with as many threads. Times of real devices are not.
RerunRecord beside(size_t number, const Record& recorded, Record now);

Table rerun_table(const std::vector<RerunRecord>& records);
nlohmann::json to_json(const std::vector<RerunRecord>& records);

}  // namespace frugal::harness
