#include "harness/measure/needed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "harness/measure/runs/case_run.h"
#include "harness/place/virtual_target.h"
#include "kernels/support/bytes.h"
#include "kernels/support/error.h"
#include "kernels/virtual/device.h"

namespace frugal::harness {
namespace {

/// Steps that a pipeline without a flush is given at once; more of them have the same peak.
constexpr int64_t steps_to_count = 64;

/// Training without what only real memory has: initial values, files to write, words to tell.
Training to_count(Training training) {
  training.weights.reset();
  training.last_words = 0;
  for (std::string* file :
       {&training.save_tensors, &training.save_weights, &training.checkpoint, &training.resume})
    file->clear();
  int64_t& steps = training.train.steps;
  steps = std::min(steps, training.own ? training.own->schedule.batches : steps_to_count);
  return training;
}

void put_capacities(Needed& needed, const RunConfig& config, const Target& target) {
  // No file describes a real device's host.
  if (!target.simulated() || target.machine()->host_memory == std::numeric_limits<int64_t>::max()) {
    needed.capacity = target.memory_of_rank(config);
    return;
  }
  const auto cluster = target.cluster(config);
  const auto& device = dynamic_cast<const VirtualDevice&>(cluster->rank(0).device);
  needed.capacity = device.capacity();
  needed.host_capacity = device.host_capacity();
}

/// "activation 148.5 GiB, optimizer 85.1 GiB": the largest first.
std::string kinds_in_words(const BytesPerKind& bytes) {
  std::vector<std::pair<int64_t, Kind>> kinds;
  for (int i = 0; i < kind_count; ++i)
    if (bytes[static_cast<size_t>(i)] > 0)
      kinds.emplace_back(bytes[static_cast<size_t>(i)], static_cast<Kind>(i));
  std::ranges::stable_sort(kinds, std::greater{}, &std::pair<int64_t, Kind>::first);
  std::vector<std::string> texts;
  for (const auto& [of_kind, kind] : kinds)
    texts.push_back(fmt::format("{} {}", name_of(kind), bytes_in_words(of_kind)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// "285.46 GiB of 78.15 GiB", or where these look alike "1.5 MiB more than 78.15 GiB".
std::string of_capacity(int64_t bytes, int64_t capacity) {
  const std::string all = bytes_in_words(bytes), there = bytes_in_words(capacity);
  return bytes > capacity && all == there
             ? fmt::format("{} more than {}", bytes_in_words(bytes - capacity), there)
             : fmt::format("{} of {}", all, there);
}

}  // namespace

std::unique_ptr<Target> virtual_target(const Target& target, int64_t memory) {
  TargetOptions options{.on = "virtual"};
  options.machine = target.counterpart(memory);
  return std::make_unique<VirtualTarget>(options);
}

std::unique_ptr<Target> without_limit(const Target& target) {
  return virtual_target(target, std::numeric_limits<int64_t>::max());
}

std::optional<Needed> needed_by(const Case& c, const Target& target) {
  if (!c.observes<workload::ModuleMemory>() && !c.observes<workload::ModuleTime>() &&
      !c.observes<Training>())
    return std::nullopt;
  const auto unlimited = without_limit(target);
  Case counted = c;
  if (auto* const training = std::get_if<Training>(&counted.workload))
    *training = to_count(*training);
  PeakRates peaks(*unlimited);
  Record record;
  record.config = c.config;
  try {
    run_of_case(counted, *unlimited, peaks, [](int64_t, const std::string&) {})->observe(record);
  } catch (const InputError&) {
    return std::nullopt;
  }
  Needed needed{.on = target.on(), .memory = *record.memory};
  if (!target.simulated()) needed.on = "virtual:" + unlimited->machine()->name;
  put_capacities(needed, c.config, target);
  return needed;
}

std::optional<Needed> needed_by(const TrainingRun& run, const Target& target) {
  Case c;
  c.config = run.config;
  c.workload = static_cast<const Training&>(run);
  return needed_by(c, target);
}

std::string in_short(const Needed& needed) {
  const Memory& memory = needed.memory;
  if (!needed.host_capacity || memory.host_peak <= *needed.host_capacity)
    return "needs " + of_capacity(memory.peak_total, needed.capacity);
  const std::string host = of_capacity(memory.host_peak, *needed.host_capacity) + " on the host";
  return memory.peak_total > needed.capacity
             ? fmt::format("needs {}, and {}", of_capacity(memory.peak_total, needed.capacity),
                           host)
             : "needs " + host;
}

std::string in_words(const Needed& needed) {
  const std::vector<StageMemory>& stages = needed.memory.stages;
  const StageMemory& fullest = fullest_stage(needed.memory);
  std::string text = fmt::format("needs {} on ", of_capacity(fullest.peak, needed.capacity));
  text += stages.size() > 1 ? fmt::format("each rank of stage {} (of 0 to {})",
                                          &fullest - stages.data(), stages.size() - 1)
                            : "each rank";
  text += fmt::format(" ({})", kinds_in_words(fullest.at_peak));
  if (needed.memory.reserved.value_or(0) > fullest.peak)
    text +=
        fmt::format(", for which its allocator takes {}", bytes_in_words(*needed.memory.reserved));
  if (needed.memory.host_peak > 0)
    text += fmt::format(", and {} of the host's memory{}", bytes_in_words(needed.memory.host_peak),
                        needed.host_capacity ? fmt::format(", of which a rank has {}",
                                                           bytes_in_words(*needed.host_capacity))
                                             : "");
  return needed.host_capacity ? text : text + ", counted on " + needed.on;
}

std::string in_words(const std::optional<Needed>& needed, const std::string& first) {
  return needed ? in_words(*needed) + "; first without room: " + first : first;
}

void add_needed(Record& record, const Case& c, const Target& target) {
  if (record.status != Status::oom) return;
  record.needed = needed_by(c, target);
  record.reason = in_words(record.needed, record.reason);
}

void with_needed(const TrainingRun& run, const Target& target, const std::function<void()>& work) {
  try {
    work();
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(in_words(needed_by(run, target), e.what()), e.requested, e.in_use,
                      e.capacity);
  }
}

}  // namespace frugal::harness
