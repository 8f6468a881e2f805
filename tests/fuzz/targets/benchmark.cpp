#include <nlohmann/json.hpp>

#include "harness/record/google_benchmark.h"
#include "harness/record/record_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// A file of frugal_micro's, of which records are made.
void read_benchmark(const std::string& path) {
  const std::vector<harness::Record> records = harness::read_google_benchmark(path);
  require_same(harness::to_json(records),
               harness::to_json(harness::records_from_text(harness::to_text(records))));
  require(harness::google_benchmark_table(records).rows.size() == records.size(),
          "a record has no row");
}

const bool benchmark_added = add_target({"benchmark", "micro.json", read_benchmark});

}  // namespace
}  // namespace frugal::testing
