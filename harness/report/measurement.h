#pragma once
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// How many parameters a model has: "8.03 billion", and as a unit "8,030,261,248".
Quantity parameters_of(const ModelConfig& model);
/// First line above a run's table: "llama3-8b: 8.03 billion parameters (8,030,261,248)\n".
std::string parameters_line(const ModelConfig& model);

/// A record for people: one line per quantity, with its unit. Bytes are shown in units that suit
/// them.
Table measurement_table(const Record& record);

/// Records that are compared, one row each: behind `labels` their source, step time, memory,
/// utilization and status; what is known of none has no column. `labels` has as many texts for each
/// as there are `columns`.
Table comparison_table(const std::vector<Table::Column>& columns,
                       const std::vector<std::vector<std::string>>& labels,
                       const std::vector<Record>& records);

}  // namespace frugal::harness
