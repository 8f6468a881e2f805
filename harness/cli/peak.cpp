#include "harness/peak.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/program.h"
#include "harness/environment.h"
#include "harness/interrupt.h"
#include "harness/table.h"
#include "harness/target.h"

namespace frugal {
namespace {

struct Values {
  std::string on = "cpu", format = "table";
  std::optional<int> threads;  // all processors otherwise
};

nlohmann::json to_json(const GemmRate& rate) {
  return {{"type", name_of(rate.type)},
          {"size", rate.size},
          {"flops_per_second", rate.flops_per_second},
          {"interval", {rate.interval.low, rate.interval.high}},
          {"seconds", rate.seconds}};
}

std::vector<std::string> row(const std::string& what, const std::string& size, double rate,
                             const Interval& interval, const char* unit) {
  return {what, size, format_number(rate / 1e9),
          fmt::format("[{}, {}]", format_number(interval.low / 1e9),
                      format_number(interval.high / 1e9)),
          unit};
}

Exit peak(const Values& values) {
  const int threads = values.threads.value_or(usable_processors());
  const Target target(values.on, threads);
  catch_interrupts();
  using nlohmann::json;
  json gemms = json::array(), peaks = json::object();
  Table table{{{"what"}, {"size", true}, {"median rate", true}, {"interval", true}, {"unit"}}, {}};
  const auto add = [&](const std::string& what, const GemmRate& rate) {
    table.rows.push_back(row(fmt::format("{} {}", what, name_of(rate.type)),
                             std::to_string(rate.size), rate.flops_per_second, rate.interval,
                             "GFLOP/s"));
  };
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::vector<GemmRate> rates = gemm_rates(type, threads);
    for (const GemmRate& rate : rates) {
      gemms.push_back(to_json(rate));
      add("gemm", rate);
    }
    peaks[std::string(name_of(type))] = to_json(measured_peak(rates));
    add("measured peak", measured_peak(rates));
  }
  const CopyRate copy = copy_rate(threads);
  table.rows.push_back(row("copy", fmt::format("{} MiB", copy.bytes >> 20), copy.bytes_per_second,
                           copy.interval, "GB/s"));
  const json result = {{"schema", "frugal.peak/1"},
                       {"on", target.on()},
                       {"device", target.device()},
                       {"source", name_of(target.source())},
                       {"threads", threads},
                       {"gemm", gemms},
                       {"measured_peak", peaks},
                       {"copy",
                        {{"bytes", copy.bytes},
                         {"bytes_per_second", copy.bytes_per_second},
                         {"interval", {copy.interval.low, copy.interval.high}},
                         {"seconds", copy.seconds}}},
                       {"environment", environment()}};
  if (values.format == "json")
    fmt::print("{}\n", result.dump(2));
  else
    fmt::print("{}\n{}", target.device(), table.text());
  return Exit::done;
}

}  // namespace

void add_peak(Program& program) {
  const auto values = std::make_shared<Values>();
  Flags flags = program.command("peak", "What this machine's GEMM and memory reach",
                                [values] { return peak(*values); });
  flags.choice("--on", values->on, {"cpu", "cuda"}, "Which device");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.choice("--format", values->format, {"table", "json"}, "How to print it");
}

}  // namespace frugal
