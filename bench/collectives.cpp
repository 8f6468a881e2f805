// Collectives by size, among the GPUs of a node, whose ranks are processes or threads, or on a
// virtual one.
#include <algorithm>
#include <iterator>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "harness/peaks/collective_rates.h"
#include "harness/place/processes.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

constexpr int ranks_of_node = 8;
/// Bytes of a whole buffer.
constexpr int64_t buffers[] = {64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30};
/// Each rank has one, and ranks of a processor share its memory.
constexpr int64_t largest_on_cpu = 16 << 20;
/// Bytes that one sample moves, so that it takes about a millisecond or more; and collectives in
/// it, at most.
constexpr int64_t bytes_of_sample = 256 << 20;
constexpr int64_t most_of_sample = 64;

std::unique_ptr<CaseRun> run_of_collective(const Target& target, size_t collective, int64_t bytes) {
  const auto timed = std::make_shared<TimedCollectives>(target, ranks_of_node, bytes);
  const auto repetitions =
      static_cast<int>(std::clamp<int64_t>(bytes_of_sample / bytes, 1, most_of_sample));
  const auto moved = static_cast<double>(timed->bytes(bytes)) * timed->factor(collective);
  return std::make_unique<Timed>(moved, "bytes", [=] {
    return Processes::of_first(timed->seconds(collective, timed->bytes(bytes), repetitions) /
                               repetitions);
  });
}

std::optional<BenchmarkCase> collective_at(const Point& point) {
  const auto& names = TimedCollectives::names();
  const auto name = std::find(names.begin(), names.end(), point.at("collective"));
  const auto size = std::find_if(std::begin(buffers), std::end(buffers), [&](int64_t bytes) {
    return name_of_size(bytes) == point.at("size");
  });
  if (name == names.end() || size == std::end(buffers)) return std::nullopt;
  const auto collective = static_cast<size_t>(name - names.begin());
  return BenchmarkCase{
      .config = config_of_ranks(ranks_of_node),
      .make = [collective, bytes = *size](
                  const Target& target) { return run_of_collective(target, collective, bytes); },
      .only_on = *size > largest_on_cpu ? std::vector{DeviceKind::cuda, DeviceKind::simulated}
                                        : std::vector<DeviceKind>{}};
}

std::vector<BenchmarkAxis> axes_of_collectives() {
  BenchmarkAxis collective{"collective", {}}, size{"size", {}};
  for (const std::string_view name : TimedCollectives::names())
    collective.values.emplace_back(name);
  for (const int64_t bytes : buffers) size.values.push_back(name_of_size(bytes));
  return {collective, size};
}

}  // namespace

const Benchmark& collectives() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "collectives",
      .title =
          "All-reduce, all-gather and reduce-scatter of bf16 among eight ranks, the GPUs of a node",
      .axes = axes_of_collectives(),
      .at = collective_at,
      .columns = {{"ms", metric::time, Shows::value, 1e-3},
                  {"GB/s of each link", metric::time, Shows::rate, 1e9}},
      .places = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::simulated},
      .processes = true};
  return benchmark;
}

}  // namespace frugal::bench
