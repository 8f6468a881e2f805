#pragma once
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// What frugal_micro puts into the context of its file, so that records can be made of it.
namespace micro_context {
inline constexpr const char* environment = "frugal_environment";
inline constexpr const char* program = "frugal_program";  ///< program_hash()
/// Place where benchmarks of a device ran: an object with `on`, `device` and `environment`.
inline constexpr const char* devices = "frugal_device";
/// Beginning of their names, before a slash.
inline constexpr const char* device = "device";
}  // namespace micro_context

/// The runs of a JSON file of Google Benchmark as records of the artifact "bench/micro": one of
/// each benchmark, a sample of each repetition, the aggregates left out. Throws InputError where
/// the file is none of frugal_micro's.
std::vector<Record> read_google_benchmark(const std::string& path);

/// These records in rows: the time of one call, and bytes or items per second.
Table google_benchmark_table(const std::vector<Record>& records);

}  // namespace frugal::harness
