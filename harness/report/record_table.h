#pragma once
#include <vector>

#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// Records as rows for data frames: one for each record and quantity, with what was run in columns
/// of its own. A record without a quantity has one row. Numbers have all their digits: what reads
/// them again has the same bits. docs/records.md says what the columns are.
Table record_rows(const std::vector<Record>& records);

}  // namespace frugal::harness
