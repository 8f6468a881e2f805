#include "harness/measure/gpu_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "harness/peaks/utilization.h"

namespace frugal::harness {
namespace {

/// Mean, least and most of a number that some moments know.
class RangeOf {
 public:
  template <class T>
  void add(const std::optional<T>& value) {
    if (!value) return;
    const auto x = static_cast<double>(*value);
    sum_ += x;
    low_ = count_ == 0 ? x : std::min(low_, x);
    high_ = count_ == 0 ? x : std::max(high_, x);
    ++count_;
  }
  std::optional<GpuLoad::Range> range() const {
    if (count_ == 0) return std::nullopt;
    return GpuLoad::Range{sum_ / count_, low_, high_};
  }

 private:
  int count_ = 0;
  double sum_ = 0, low_ = 0, high_ = 0;
};

bool is_in(double at, const std::vector<TimeWindow>& windows) {
  return std::any_of(windows.begin(), windows.end(), [&](const TimeWindow& window) {
    return window.begin <= at && at <= window.end;
  });
}

GpuLoad load_of(const std::vector<const GpuMoment*>& moments) {
  GpuLoad load;
  load.samples = static_cast<int>(moments.size());
  RangeOf sm, memory, power, temperature;
  for (const GpuMoment* moment : moments) {
    sm.add(moment->sm_clock);
    memory.add(moment->memory_clock);
    power.add(moment->power);
    temperature.add(moment->temperature);
    for (const std::string& reason : moment->throttled.value_or(std::vector<std::string>()))
      ++load.throttled[reason];
  }
  for (auto& [reason, part] : load.throttled) part /= static_cast<double>(moments.size());
  load.sm_clock = sm.range();
  load.memory_clock = memory.range();
  load.power = power.range();
  load.temperature = temperature.range();
  return load;
}

/// A counter at a time, between the two moments around it; none outside of all moments.
std::optional<double> counter_at(const std::vector<GpuMoments>& moments, double at, size_t gpu) {
  const auto after = std::lower_bound(moments.begin(), moments.end(), at,
                                      [](const GpuMoments& m, double t) { return m.at < t; });
  if (after == moments.end()) return std::nullopt;
  const auto before = after->at == at ? after : after - (after == moments.begin() ? 0 : 1);
  if (before->at > at || gpu >= after->gpus.size() || gpu >= before->gpus.size())
    return std::nullopt;
  const std::optional<double>&low = before->gpus[gpu].energy, &high = after->gpus[gpu].energy;
  if (!low || !high) return std::nullopt;
  if (before == after) return *low;
  return *low + (*high - *low) * (at - before->at) / (after->at - before->at);
}

/// Whether nothing but steps runs from a training's first step to its last, each by itself.
bool only_steps(const Case& c) {
  const auto* training = std::get_if<Training>(&c.workload);
  return training != nullptr && !training->own && training->checkpoint.empty() &&
         training->eval_every == 0 && c.config.schedule.flushes && !c.config.validates_later();
}

/// Tokens of one execution of a case's model, of all its ranks.
double tokens_of(const Case& c) {
  const RunConfig& config = c.config;
  const bool step = std::holds_alternative<Training>(c.workload);
  return static_cast<double>(config.model.sequence * config.micro_batch *
                             (step ? config.batch_microbatches() : 1));
}

}  // namespace

GpuLoads load_in(const std::vector<GpuMoments>& moments, const std::vector<TimeWindow>& windows,
                 const std::vector<int>& gpus) {
  GpuLoads loads;
  double seconds = 0;
  for (const TimeWindow& window : windows) seconds += window.end - window.begin;
  for (const int gpu : gpus) {
    std::vector<const GpuMoment*> inside;
    for (const GpuMoments& all : moments)
      if (static_cast<size_t>(gpu) < all.gpus.size() && is_in(all.at, windows))
        inside.push_back(&all.gpus[static_cast<size_t>(gpu)]);
    if (inside.empty()) {
      return {.gpus = {},
              .why_unknown = fmt::format(
                  "no look at the clocks, {:.0f} ms apart, fell in the {:.3g} s of its turns; "
                  "--steady has longer ones",
                  1e3 * GpuWatch::period, seconds)};
    }
    loads.gpus.push_back(load_of(inside));
  }
  return loads;
}

std::optional<double> energy_in(const std::vector<GpuMoments>& moments, const TimeWindow& window,
                                const std::vector<int>& gpus) {
  if (window.end - window.begin < least_energy_window || gpus.empty()) return std::nullopt;
  double joules = 0;
  for (const int gpu : gpus) {
    const auto begin = counter_at(moments, window.begin, static_cast<size_t>(gpu)),
               end = counter_at(moments, window.end, static_cast<size_t>(gpu));
    if (!begin || !end) return std::nullopt;
    joules += *end - *begin;
  }
  return joules;
}

void add_gpu_load(Record& record, const Case& c, const Target& target,
                  const std::vector<GpuMoments>& moments, const std::vector<TimeWindow>& windows) {
  const std::vector<int> gpus = target.gpus_here(c.config);
  const std::string why = why_no_gpu_states();
  record.gpu_load = why.empty() ? load_in(moments, windows, gpus) : GpuLoads{{}, why};
  if (record.utilization) add_at_clock(*record.utilization, *record.gpu_load, target.machine());
  // The energy of absent ranks, and of other processes' GPUs, is not known here.
  const bool all_here = static_cast<double>(gpus.size()) == target.devices(c.config);
  const std::vector<double>& executions = record.samples(metric::executions);
  if (!all_here || record.modelled || !has_configuration(c.config)) return;
  const bool blocks = !executions.empty() && executions.size() == windows.size();
  if (!blocks && !only_steps(c)) return;
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto joules = energy_in(moments, windows[i], gpus);
    const double times =
        blocks ? executions[i] : static_cast<double>(record.samples(metric::step_time).size());
    if (joules && times > 0)
      record.add_sample(metric::joules_per_token, "J", *joules / times / tokens_of(c));
  }
}

GpuWatch::GpuWatch() {
  look();
  thread_ = std::thread([this] {
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::duration<double>(period));
      look();
    }
  });
}

GpuWatch::~GpuWatch() {
  ends_ = true;
  thread_.join();
}

void GpuWatch::look() {
  // The lock is held while the driver is asked, so that moments are in their order.
  const std::lock_guard lock(mutex_);
  moments_.push_back({steady_seconds(), gpu_moments()});
}

std::vector<GpuMoments> GpuWatch::moments() {
  look();
  const std::lock_guard lock(mutex_);
  return moments_;
}

void GpuWatch::clear() {
  const std::lock_guard lock(mutex_);
  moments_.clear();
}

}  // namespace frugal::harness
