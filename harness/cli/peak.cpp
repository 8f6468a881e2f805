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
  int threads = 0;  // all processors
};

Exit peak(const Values& values) {
  const Target target(values.on, values.threads);
  catch_interrupts();
  using nlohmann::json;
  json gemms = json::array();
  Table table{{{"what"}, {"size", true}, {"rate", true}, {"unit"}}, {}};
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const int64_t size : {256, 512, 1024, 2048}) {
      const GemmRate rate = gemm_rate(type, size, values.threads);
      gemms.push_back({{"type", name_of(type)},
                       {"size", size},
                       {"flops_per_second", rate.flops_per_second},
                       {"seconds", rate.seconds}});
      table.rows.push_back({fmt::format("gemm {}", name_of(type)), std::to_string(size),
                            format_number(rate.flops_per_second / 1e9), "GFLOP/s"});
    }
  }
  const CopyRate copy = copy_rate(values.threads);
  table.rows.push_back({"copy", fmt::format("{} MiB", copy.bytes >> 20),
                        format_number(copy.bytes_per_second / 1e9), "GB/s"});
  const json result = {{"schema", "frugal.peak/1"},
                       {"on", target.on()},
                       {"device", target.device()},
                       {"source", name_of(target.source())},
                       {"threads", values.threads},
                       {"gemm", gemms},
                       {"copy",
                        {{"bytes", copy.bytes},
                         {"bytes_per_second", copy.bytes_per_second},
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
  Flags flags = program.command("peak", "What this machine's GEMM and memory reach", [values] {
    if (values->threads == 0) values->threads = usable_processors();
    return peak(*values);
  });
  flags.choice("--on", values->on, {"cpu", "cuda"}, "Which device");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  flags.choice("--format", values->format, {"table", "json"}, "How to print it");
}

}  // namespace frugal
