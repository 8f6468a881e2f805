#include "harness/report/measurement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/serial_parameters.h"
#include "harness/calibrate/known_errors.h"
#include "harness/measure/flops.h"
#include "harness/measure/needed.h"
#include "harness/measure/statistics.h"
#include "harness/place/device_kind.h"
#include "kernels/support/bytes.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {
namespace {

class Lines {
 public:
  void add(const std::string& what, const std::string& value, const std::string& unit = "") {
    table.rows.push_back({what, value, unit});
  }
  void add(const std::string& what, const Quantity& quantity) {
    add(what, quantity.value, quantity.unit);
  }
  Table table{{{"quantity"}, {"value", true}, {"unit"}}, {}};
};

/// The virtual machine of a record, where it is one of ours.
std::optional<Machine> shipped_machine(const Record& record) {
  const std::string on = record.on.starts_with("virtual:") ? record.on.substr(8) : "";
  const std::vector<std::string> ours = machine_names();
  if (std::ranges::count(ours, on) == 0) return std::nullopt;
  return find_machine(on);
}

/// "GiB": and of the ranks of a full node, where the machine is one of ours.
std::string host_unit(const Record& record, const Memory& memory, const std::string& unit) {
  const std::optional<Machine> machine = shipped_machine(record);
  if (memory.host_peak == 0 || !machine) return unit;
  const int64_t ranks = std::min<int64_t>(record.config.ranks(), machine->devices_per_node);
  return fmt::format("{}; {} of the {} of a node with {} ranks", unit,
                     bytes_in_words(ranks * memory.host_peak), bytes_in_words(machine->host_memory),
                     ranks);
}

/// True where a virtual machine has no rates of the program's kernels for attention.
bool attention_costs_its_products(const Record& record) {
  if (record.source != Source::simulated || record.config.attention != AttentionKind::fused)
    return false;
  const std::optional<Machine> machine = shipped_machine(record);
  if (!machine) return true;
  return !kernels::AttentionClock(*machine, record.config.program.device.attention);
}

void add_host_memory(Lines& lines, const Record& record, const Memory& memory) {
  const Quantity host = format_bytes(memory.host_peak);
  lines.add("host memory of a rank", host.value, host_unit(record, memory, host.unit));
}

/// Adds the memory that a rank needs, beside what it has, and what of it each kind takes.
void add_need(Lines& lines, const Record& record) {
  const Needed& needed = *record.needed;
  const StageMemory& stage = fullest_stage(needed.memory);
  const Quantity all = format_bytes(stage.peak);
  lines.add("needed memory of a rank", all.value,
            fmt::format("{}, of {}", all.unit, bytes_in_words(needed.capacity)));
  for (int i = 0; i < kind_count; ++i)
    if (const int64_t bytes = stage.at_peak[static_cast<size_t>(i)]; bytes > 0)
      lines.add(fmt::format("of it {}", name_of(static_cast<Kind>(i))), format_bytes(bytes));
  add_host_memory(lines, record, needed.memory);
}

void add_memory(Lines& lines, const Record& record) {
  const Memory& memory = *record.memory;
  for (int i = 0; i < kind_count; ++i)
    if (const int64_t bytes = memory.peak[static_cast<size_t>(i)]; bytes > 0)
      lines.add(fmt::format("peak {} memory of a rank", name_of(static_cast<Kind>(i))),
                format_bytes(bytes));
  lines.add("peak memory of a rank", format_bytes(memory.peak_total));
  if (memory.reserved) lines.add("memory reserved by its device", format_bytes(*memory.reserved));
  add_host_memory(lines, record, memory);
}

/// " on HOST", of a rank that is a process.
std::string host_of(const Record& record, int rank) {
  const auto environment = nlohmann::json::parse(record.environment);
  if (!environment.contains("ranks")) return "";
  return " on " +
         environment.at("ranks").at(static_cast<size_t>(rank)).at("host").get<std::string>();
}

void add_ranks(Lines& lines, const Record& record) {
  const RankStatistics& statistics = *record.ranks;
  const auto by_waiting = [](const RankStatistics::Rank& a, const RankStatistics::Rank& b) {
    return a.waiting.median < b.waiting.median;
  };
  const auto [least, most] =
      std::minmax_element(statistics.ranks.begin(), statistics.ranks.end(), by_waiting);
  lines.add("waiting of the ranks in a step",
            fmt::format("{} to {}", format_number(least->waiting.median),
                        format_number(most->waiting.median)),
            "s, median of the rank that waits least and of the one that waits most");
  lines.add("skew between ranks", format_number(statistics.skew.median),
            "s, median of how much longer one computes than another of its stage");
  if (const auto& straggler = statistics.straggler)
    lines.add("straggling rank", std::to_string(straggler->rank) + host_of(record, straggler->rank),
              fmt::format("computes {} % longer than the others of its stage",
                          format_number(100 * straggler->slower)));
  else
    lines.add("straggling rank", "none");
}

std::string text_of(const std::optional<GpuLoad::Range>& range) {
  if (!range) return "unknown";
  return fmt::format("{} [{}, {}]", format_number(range->mean), format_number(range->low),
                     format_number(range->high));
}

void add_gpu_load(Lines& lines, const GpuLoads& loads) {
  if (!loads.why_unknown.empty()) lines.add("clocks of the GPUs", "unknown", loads.why_unknown);
  for (size_t i = 0; i < loads.gpus.size(); ++i) {
    const GpuLoad& load = loads.gpus[i];
    std::string reasons;
    for (const auto& [reason, part] : load.throttled)
      reasons +=
          fmt::format("{}{} {} %", reasons.empty() ? "" : ", ", reason, format_number(100 * part));
    lines.add(fmt::format("SM clock of GPU {}", i), text_of(load.sm_clock),
              fmt::format("MHz, mean and range of {} looks", load.samples));
    lines.add(fmt::format("power of GPU {}", i), text_of(load.power), "W");
    lines.add(fmt::format("temperature of GPU {}", i), text_of(load.temperature), "°C");
    lines.add(fmt::format("GPU {} held back by", i), reasons.empty() ? "nothing" : reasons,
              "part of the looks");
  }
}

void add_work(Lines& lines, const Record& record) {
  const StepWork& work = *record.work;
  const DeviceWork::Operations all = work.done.total();
  lines.add("operations of a rank's step", format_number(all.count));
  lines.add("bytes that they move", format_bytes(std::llround(all.cost.bytes)));
  lines.add("least bytes of the step", format_bytes(std::llround(work.least.total())));
  const DeviceKind kind = device_kind(record.on);
  if (kind != DeviceKind::cpu)
    lines.add("kernel launches of the step", format_number(work.done.calls.launches));
  if (kind == DeviceKind::cuda)
    lines.add("waits of the host in the step", format_number(work.done.calls.synchronisations));
}

void add_fraction(Lines& lines, const std::string& name, const Fraction& fraction) {
  if (fraction.value)
    lines.add(name, format_number(100 * *fraction.value), "%");
  else
    lines.add(name, "not known", fraction.reason);
}

void add_utilization(Lines& lines, const Utilization& u) {
  add_fraction(lines, "MFU, data-sheet peak", u.mfu_data_sheet);
  add_fraction(lines, "HFU, data-sheet peak", u.hfu_data_sheet);
  add_fraction(lines, "MFU, measured peak (best median GEMM)", u.mfu_measured);
  add_fraction(lines, "HFU, measured peak (best median GEMM)", u.hfu_measured);
  if (!u.at_clock) return;
  add_fraction(lines, "MFU, data-sheet peak at the mean clock", u.at_clock->mfu);
  add_fraction(lines, "HFU, data-sheet peak at the mean clock", u.at_clock->hfu);
}

std::string held_out_unit(const Record& record) {
  const auto bytes = record.options.find("held_out_bytes_evaluated");
  if (bytes == record.options.end()) return "nats";
  const bool masked = record.config.model.objective == Objective::masked_token;
  return fmt::format("nats, mean of {}{} bytes", masked ? "those hidden of " : "", bytes->second);
}

void add_losses(Lines& lines, const Record& record) {
  if (!record.losses.empty()) {
    lines.add("first loss", format_number(record.losses.front()), "nats");
    lines.add("last loss", format_number(record.losses.back()), "nats");
  }
  if (!record.held_out.empty())
    lines.add("held-out loss", format_number(record.held_out.back().second), held_out_unit(record));
}

/// "0.2058", or of several steps the median, with its interval: "0.2058 [0.201, 0.212], 20 steps".
std::string step_time_of(const Record& record) {
  const std::vector<double>& times = record.samples(metric::step_time);
  if (times.empty()) return "";
  const Estimate time = median_estimate(times);
  const std::string text = format_estimate(time);
  return times.size() > 1 ? fmt::format("{}, {} steps", text, times.size()) : text;
}

/// Adds how far a predicted step time may be off, and what the step costs.
void add_step(Lines& lines, const Record& record) {
  if (record.samples(metric::step_time).empty()) return;
  const std::optional<Band> band = find_band(record);
  if (record.source == Source::simulated)
    lines.add("error of such times", band ? format_number(100 * band->median) : "not calibrated",
              band
                  ? "%: " + band->text()
                  : "no run like it is published, of this machine and program (docs/published.md)");
  if (record.on != "cpu")
    lines.add("cost",
              format_number(device_hours_per_billion_tokens(
                  record.config, median(record.samples(metric::step_time)))),
              "device-hours per billion tokens");
}

/// Source of a part of a step that was put together; empty of anything else.
std::string_view source_of_part(const Record& record, const std::string& metric) {
  if (!record.lone_stages) return "";
  const auto& parts = LoneStages::parts;
  const auto part =
      std::ranges::find_if(parts, [&](const LoneStages::Part& p) { return metric == p.metric; });
  return part == parts.end() ? "" : source_of(record, *part);
}

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t behind = 3; behind < text.size(); behind += 4) text.insert(text.size() - behind, ",");
  return text;
}

}  // namespace

Quantity parameters_of(const ModelConfig& model) {
  const int64_t count = parameter_count(model);
  constexpr std::array<std::pair<double, const char*>, 3> names = {
      {{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}}};
  for (const auto& [size, name] : names)
    if (static_cast<double>(count) >= size)
      return {format_number(static_cast<double>(count) / size) + " " + name, with_commas(count)};
  return {with_commas(count), ""};
}

std::string parameters_line(const ModelConfig& model) {
  const Quantity count = parameters_of(model);
  return fmt::format("{}: {} parameters{}\n", model.name.empty() ? "model" : model.name,
                     count.value, count.unit.empty() ? "" : fmt::format(" ({})", count.unit));
}

Table measurement_table(const Record& record) {
  Lines lines;
  const ModelConfig& model = record.config.model;
  lines.add("parameters", parameters_of(model));
  lines.add("model", model.name,
            fmt::format("{} layers, hidden size {}, {} heads, sequence length {}, vocabulary {}",
                        model.layers, model.hidden, model.heads, model.sequence, model.vocabulary));
  if (model.objective == Objective::masked_token)
    lines.add("objective", std::string(name_of(model.objective)),
              "losses are means over the positions that were chosen");
  lines.add("source", std::string(name_of(record.source)), record.on + ": " + record.device);
  if (record.modelled)
    lines.add("communication", "modelled",
              fmt::format("on {}: {}", record.modelled->machine, ModelledCommunication::left_out));
  for (const auto& [option, what] : {std::pair{"schedule_file", "schedule, of a file"},
                                     {"float32_products", "products of float32"},
                                     {"simd", "instructions, by FRUGAL_SIMD"},
                                     {"cuda_synchronous", "every operation waited for"},
                                     {collective_load, "what stands for collectives takes"}})
    if (const auto found = record.options.find(option); found != record.options.end())
      lines.add(what, found->second);
  if (attention_costs_its_products(record))
    lines.add("fused attention", "not calibrated",
              "its time is what its products take at the speed of separate ones");
  if (record.lone_stages)
    lines.add("stages that ran", fmt::format("{}", fmt::join(record.lone_stages->stages, ", ")),
              fmt::format("of {}, one rank of each after the other; the schedule puts their times "
                          "together",
                          record.config.pipeline_parallel));
  lines.add("scale", scale_name(record.scale));
  lines.add("status", std::string(name_of(record.status)), record.reason);
  for (const auto& [name, metric] : record.metrics) {
    const Estimate estimate = median_estimate(metric.samples);
    std::string unit = metric.unit;
    if (const auto source = source_of_part(record, name); !source.empty())
      unit += fmt::format(", {}", source);
    if (const auto& interval = estimate.interval) unit += " " + format_interval(*interval);
    if (estimate.samples > 1) unit += fmt::format(", median of {}", estimate.samples);
    lines.add(name, format_number(estimate.value), unit);
  }
  add_step(lines, record);
  add_losses(lines, record);
  if (record.memory) add_memory(lines, record);
  if (record.needed) add_need(lines, record);
  if (record.ranks) add_ranks(lines, record);
  if (record.gpu_load) add_gpu_load(lines, *record.gpu_load);
  if (record.work) add_work(lines, record);
  if (record.flops) {
    lines.add("model FLOPs", fmt::format("{:.4g}", record.flops->model),
              record.flops->model_formula);
    lines.add("hardware FLOPs", fmt::format("{:.4g}", record.flops->hardware),
              record.flops->hardware_formula);
  }
  if (record.utilization) add_utilization(lines, *record.utilization);
  return lines.table;
}

Table comparison_table(const std::vector<Table::Column>& columns,
                       const std::vector<std::vector<std::string>>& labels,
                       const std::vector<Record>& records) {
  Table table{columns, labels};
  const auto add = [&](const Table::Column& column, const auto& text_of) {
    std::vector<std::string> texts;
    for (const Record& record : records) texts.push_back(text_of(record));
    const auto is_empty = [](const std::string& text) { return text.empty(); };
    if (std::all_of(texts.begin(), texts.end(), is_empty)) return;  // not known here
    table.columns.push_back(column);
    for (size_t i = 0; i < texts.size(); ++i) table.rows[i].push_back(texts[i]);
  };
  const auto add_fraction = [&](const char* name, Fraction Utilization::*fraction) {
    add({name, true}, [&](const Record& record) {
      const bool known = record.utilization && (*record.utilization.*fraction).value;
      return known ? format_number(100 * *(*record.utilization.*fraction).value) : std::string();
    });
  };
  add({"parameters", true}, [](const Record& record) {  // a rule of a model may be broken
    return record.status == Status::skipped ? "" : parameters_of(record.config.model).value;
  });
  add({"source"}, [](const Record& record) {
    return fmt::format("{}, {}", name_of(record.source), setting_of(record).where());
  });
  add({"step time, s", true}, step_time_of);
  add({"peak memory of a rank", true}, [](const Record& record) {
    if (record.needed) return format_bytes(record.needed->memory.peak_total).text() + " needed";
    return record.memory ? format_bytes(record.memory->peak_total).text() : std::string();
  });
  add({"host memory of a rank", true}, [](const Record& record) {
    if (record.needed) return format_bytes(record.needed->memory.host_peak).text() + " needed";
    return record.memory ? format_bytes(record.memory->host_peak).text() : std::string();
  });
  add_fraction("MFU, % of data sheet", &Utilization::mfu_data_sheet);
  add_fraction("HFU, % of data sheet", &Utilization::hfu_data_sheet);
  add_fraction("MFU, % of measured peak", &Utilization::mfu_measured);
  add_fraction("HFU, % of measured peak", &Utilization::hfu_measured);
  add({"status"}, [](const Record& record) {
    if (record.ok()) return std::string("ok");
    return fmt::format("{}: {}", name_of(record.status),
                       record.needed ? in_short(*record.needed) : record.reason);
  });
  return table;
}

}  // namespace frugal::harness
