#include "harness/report/published_errors.h"

#include <fmt/format.h>

#include <set>

#include "harness/calibrate/known_errors.h"

namespace frugal::harness {

Table published_errors(const Records& records) {
  std::set<std::string> machines;
  for (const Record& record : records.all())
    if (record.on.starts_with("virtual:")) machines.insert(record.on.substr(8));
  Table table{{{"machine"},
               {"program"},
               {"tokens"},
               {"nodes"},
               {"bound by the"},
               {"runs", true},
               {"median, %", true},
               {"largest, %", true}},
              {}};
  for (const Band& band : all_bands())
    if (machines.contains(band.machine))
      table.rows.push_back(
          {band.machine, band.program, band.is_long ? "8k or more" : "fewer than 8k",
           band.several_nodes ? "several" : "one", band.host_bound ? "host" : "device",
           std::to_string(band.count), fmt::format("{:.1f}", 100 * band.median),
           fmt::format("{:.1f}", 100 * band.largest)});
  return table;
}

}  // namespace frugal::harness
