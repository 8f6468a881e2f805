#include "harness/compare/quantity.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace frugal::harness {
namespace {

using Observe = std::function<std::vector<double>(const Record&)>;

ProcessSamples seen(const CaseRuns& runs, const Observe& observe) {
  ProcessSamples all;
  for (const Record* record : runs.runs) all.push_back(observe(*record));
  return all;
}

/// Leaves out processes that observed nothing, such as those that ran out of memory: of turns, the
/// other side's, too.
void leave_out_empty(const CasePair& pair, ObservedQuantity& quantity) {
  const auto nothing = [](const std::vector<double>& samples) { return samples.empty(); };
  if (pair.by_turns)
    for (size_t i = 0; i < quantity.base.size(); ++i)
      if (nothing(quantity.base[i]) || nothing(quantity.candidate[i])) {
        quantity.base[i].clear();
        quantity.candidate[i].clear();
      }
  std::erase_if(quantity.base, nothing);
  std::erase_if(quantity.candidate, nothing);
}

/// Adds a quantity, unless a side lacks it.
void observe(const CasePair& pair, ObservedQuantity quantity, const Observe& how,
             std::vector<ObservedQuantity>& into) {
  quantity.base = seen(pair.base, how);
  quantity.candidate = seen(pair.candidate, how);
  leave_out_empty(pair, quantity);
  if (!quantity.base.empty() && !quantity.candidate.empty()) into.push_back(std::move(quantity));
}

/// A metric that a training samples at each step is no repetition of one observation.
QuantityKind kind_of(const Record& record, const std::string& name, const Metric& metric) {
  if (metric.unit == "s") return QuantityKind::time;
  const bool each_step = name == metric::gradient_norm && !record.losses.empty();
  if (each_step) return QuantityKind::sequence;
  const bool counted = metric.unit == "bytes" || metric.unit == "FLOP" || metric.unit == "FLOPs";
  return counted ? QuantityKind::counted : QuantityKind::observed;
}

void add_metrics(const CasePair& pair, std::vector<ObservedQuantity>& into) {
  std::set<std::string> told;
  for (const Record* record : pair.base.runs)
    for (const auto& [name, metric] : record->metrics) {
      if (!told.insert(name).second) continue;
      const QuantityKind kind = kind_of(*record, name, metric);
      observe(
          pair, {name, metric.unit, kind, kind == QuantityKind::time, {}, {}},
          [&name = name](const Record& r) { return r.samples(name); }, into);
    }
}

void add_memory(const CasePair& pair, std::vector<ObservedQuantity>& into) {
  const auto add = [&](const std::string& name, bool shown,
                       const std::function<std::optional<int64_t>(const Memory&)>& bytes) {
    observe(
        pair, {name, "bytes", QuantityKind::counted, shown, {}, {}},
        [&](const Record& r) -> std::vector<double> {
          const std::optional<int64_t> value = r.memory ? bytes(*r.memory) : std::nullopt;
          if (!value) return {};
          return {static_cast<double>(*value)};
        },
        into);
  };
  add("peak memory", true, [](const Memory& m) { return m.peak_total; });
  for (size_t kind = 0; kind < kind_count; ++kind)
    add("peak " + std::string(name_of(static_cast<engine::Kind>(kind))) + " memory", false,
        [kind](const Memory& m) { return m.peak[kind]; });
  add("reserved memory", false, [](const Memory& m) { return m.reserved; });
  add("peak host memory", false, [](const Memory& m) { return m.host_peak; });
}

void add_flops(const CasePair& pair, std::vector<ObservedQuantity>& into) {
  const auto add = [&](const std::string& name, double Flops::*value) {
    observe(
        pair, {name, "FLOP", QuantityKind::counted, false, {}, {}},
        [&](const Record& r) -> std::vector<double> {
          if (!r.flops) return {};
          return {(*r.flops).*value};
        },
        into);
  };
  add("model FLOPs", &Flops::model);
  add("hardware FLOPs", &Flops::hardware);
}

void add_losses(const CasePair& pair, std::vector<ObservedQuantity>& into) {
  observe(
      pair, {"losses", "nats", QuantityKind::sequence, true, {}, {}},
      [](const Record& r) { return r.losses; }, into);
  observe(
      pair, {"held-out losses", "nats", QuantityKind::sequence, true, {}, {}},
      [](const Record& r) {
        std::vector<double> losses;
        for (const auto& [step, loss] : r.held_out) losses.push_back(loss);
        return losses;
      },
      into);
}

bool all_equal(const ProcessSamples& processes) {
  return std::all_of(processes.begin(), processes.end(),
                     [&](const std::vector<double>& one) { return one == processes.front(); });
}

}  // namespace

bool ObservedQuantity::positive() const {
  const auto above_zero = [](const std::vector<double>& one) {
    return std::all_of(one.begin(), one.end(), [](double x) { return x > 0; });
  };
  return std::all_of(base.begin(), base.end(), above_zero) &&
         std::all_of(candidate.begin(), candidate.end(), above_zero);
}

bool ObservedQuantity::exact() const { return all_equal(base) && all_equal(candidate); }

std::vector<ObservedQuantity> quantities_of(const CasePair& pair) {
  std::vector<ObservedQuantity> quantities;
  add_metrics(pair, quantities);
  add_memory(pair, quantities);
  add_flops(pair, quantities);
  add_losses(pair, quantities);
  return quantities;
}

}  // namespace frugal::harness
