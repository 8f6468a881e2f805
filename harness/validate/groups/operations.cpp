// Every operation of the table against float64, before anything is timed.
#include <fmt/format.h>

#include <map>

#include "harness/measure/interrupt.h"
#include "harness/validate/group.h"
#include "kernels/table/operation_table.h"

namespace frugal::harness {
namespace {

using table::Setting;

/// As an operation's forms are called: "softmax/causal-dropout" is one of softmax's.
std::string operation_of(const std::string& row) { return row.substr(0, row.find('/')); }

/// Around packs of eight and a cache line's width, an odd size, and one of many rows; more where
/// there is time. Emulated and real GPUs alike have their own kernels for whole packs.
std::vector<Setting> validated_settings(DType type, bool quick) {
  std::vector<Setting> all = {{type, 7, 65, 11}, {type, 24, 128, 0}};
  if (!quick)
    for (const auto& [rows, cols] : {std::pair{1, 8}, {5, 3}, {37, 520}, {160, 24}, {3, 2056}})
      all.push_back({type, rows, cols, 12});
  for (Setting& setting : all) setting.rounds_before_adding = true;
  return all;
}

/// The first thing that is wrong of a row; empty where nothing is.
std::string what_is_wrong(Device& device, const table::Row& row, bool quick, int64_t& elements) {
  constexpr int64_t most = 1 << 17;  // some rows square the columns
  for (const DType type : {DType::f32, DType::bf16, DType::f64})
    for (const Setting& setting : validated_settings(type, quick)) {
      const table::Case test = row.build(setting);
      if (test.operands[0].shape.size() > most) continue;
      const table::Values before = table::random_values(test, 20260101);
      const table::AfterRun after = table::run_guarded_case(device, test, before);
      for (const table::Operand& operand : test.operands)
        if (operand.role != table::Role::input) elements += operand.shape.size();
      const std::string where =
          fmt::format("{} {}, {} x {}: ", row.name, name_of(type), setting.rows, setting.cols);
      if (!after.overwritten.empty())
        return fmt::format("{}memory {} is overwritten", where, after.overwritten.front());
      const auto difference =
          disagreement(test, expected(test, before), values_of(test, after.memory));
      if (difference) return where + *difference;
    }
  return "";
}

struct OperationResult {
  int rows = 0;
  int64_t elements = 0;
  std::string wrong;
  double seconds = 0;
};

Finding finding_of_operation(const std::string& operation, const OperationResult& result) {
  Finding check{"operations", operation};
  check.expected = "the documented formula in float64, within the rounding that it allows";
  check.band =
      "no element may be off by more roundings than its formula has, times what they are relative "
      "to";
  check.seen = fmt::format("{} elements of {} form{}", result.elements, result.rows,
                           result.rows == 1 ? "" : "s");
  check.seconds = result.seconds;
  if (result.wrong.empty()) return check;
  check.outcome = Finding::Outcome::failed;
  check.computes_wrongly = true;
  check.reason = result.wrong;
  check.advice =
      "do not use this device; a library or driver may be at fault: exchange one, and "
      "validate again";
  return check;
}

bool is_the_librarys(const Workbench& bench, const std::string& operation) {
  return bench.on_gpu() && operation.starts_with("fused-attention");
}

std::vector<Finding> check_device(Workbench& bench, Device& device) {
  std::vector<std::string> order;
  std::map<std::string, OperationResult> results;
  for (const table::Row& row : table::rows()) {
    const std::string operation = operation_of(row.name);
    if (is_the_librarys(bench, operation)) continue;
    if (!results.contains(operation)) order.push_back(operation);
    OperationResult& result = results[operation];
    if (!result.wrong.empty()) continue;
    stop_if_interrupted();
    const double start = steady_seconds();
    ++result.rows;
    result.wrong = what_is_wrong(device, row, bench.quick(), result.elements);
    result.seconds += steady_seconds() - start;
  }
  std::vector<Finding> findings;
  for (const std::string& operation : order)
    findings.push_back(finding_of_operation(operation, results[operation]));
  return findings;
}

std::vector<Finding> check_operations(Workbench& bench) {
  // Of a processor that is busy the threads wait for each other: one is enough to be quick.
  Rank& processor = bench.quick() ? bench.core() : bench.rank();
  std::vector<Finding> findings = of_each_device(
      bench.devices(processor), [&](Rank& rank) { return check_device(bench, rank.device); });
  if (bench.on_gpu())
    findings.push_back(skipped_finding("operations", "fused-attention",
                                       "a library computes it, of bf16 and heads of some sizes "
                                       "only, which no row of the table has",
                                       "tests_cuda compares it with float64"));
  return findings;
}

}  // namespace

CheckGroup operations_group() {
  return {.name = "operations",
          .question = "does every operation compute what float64 does?",
          .before = check_operations};
}

}  // namespace frugal::harness
