#pragma once
#include <vector>

#include "harness/measure/benchmark.h"
#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// A benchmark's records, one row each: its axes, where it ran, the declared columns with their
/// 95 % intervals, and how it ended. A reference has no ratio to itself.
Table benchmark_table(const Benchmark& benchmark, const std::vector<Record>& records);
/// The same by the name of --format, with the benchmark's summary below; not in "csv", where each
/// line is a row.
std::string benchmark_text(const Benchmark& benchmark, const std::vector<Record>& records,
                           std::string_view format);

}  // namespace frugal::harness
