// What ranks that are processes cost: collectives, messages and training steps of ranks that are
// threads of one process, and of as many that are processes on the same machine. Under a launcher
// every process runs this, case by case: its part of a case whose ranks are processes; of one whose
// ranks are threads the first runs all, and the others wait.
#include "harness/place/processes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "bench/benchmarks.h"
#include "bench/numbers.h"
#include "bench/timed.h"
#include "engine/checkpoint/gather.h"
#include "engine/train/trainer.h"
#include "harness/place/target.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"

namespace frugal::bench {
namespace {

constexpr const char* step = "step";
/// Bytes of a whole tensor, or of a message.
constexpr int64_t sizes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20, 32 << 20};
/// Of an all-reduce in a row, whose sums grow, so that they are numbers to the end.
constexpr int64_t most_repetitions = 32;
/// How a step's ranks share its work.
const std::map<std::string, int RunConfig::*> layouts = {
    {"tensor-parallel", &RunConfig::tensor_parallel},
    {"pipeline-parallel", &RunConfig::pipeline_parallel},
    {"data-parallel", &RunConfig::data_parallel}};

/// Whether threads can be where the processes are.
bool on_one_host() { return Processes::here() == nullptr || Processes::here()->hosts() == 1; }

/// As many as were started together; two threads where this program is alone.
int ranks_here() { return Processes::here() == nullptr ? 2 : Processes::here()->size(); }

/// Ranks as threads, each where the launcher has bound the process of its rank: by itself, the
/// first process would have them share its own processors.
std::unique_ptr<Cluster> cluster_of_threads(const Target& target, const RunConfig& config) {
  std::vector<Processors> processors;
  if (const Processes* const processes = Processes::here())
    for (const RankPlaceHere& place : processes->places()) processors.push_back(place.processors);
  return make_cpu_cluster(config, *target.threads(), LocalGroup::default_deadline, processors);
}

/// The cluster of a case, on all processes alike; of threads only on the first.
class Ranks {
 public:
  Ranks(const Target& target, const RunConfig& config, bool processes)
      : cluster_(processes             ? target.cluster(config)
                 : Processes::writes() ? cluster_of_threads(target, config)
                                       : nullptr) {}

  bool here() const { return cluster_ != nullptr; }
  Cluster& cluster() { return *cluster_; }
  /// Seconds of the slowest rank, on every process; `seconds` says those of one rank.
  double slowest(const std::function<double(Rank&)>& seconds) {
    std::vector<double> all;
    if (here()) {
      all.resize(static_cast<size_t>(cluster_->local_ranks()));
      cluster_->run([&](Rank& rank) { all[static_cast<size_t>(rank.index)] = seconds(rank); });
      all = gather_all(*cluster_, all);
    }
    return Processes::of_first(all.empty() ? 0 : *std::max_element(all.begin(), all.end()));
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

/// A collective or message, as one rank does it with `whole` and `part`, one of the ranks' shares.
struct Exchange {
  const char* name;
  void (*call)(Communicator& group, const View& whole, const View& part);
  int exchanges_of_call = 1;
};

void there_and_back(Communicator& group, const View& whole, const View& /*part*/) {
  if (group.rank() == 0) {
    group.send(whole, 1).wait();
    group.receive(whole, 1).wait();
  } else if (group.rank() == 1) {
    group.receive(whole, 0).wait();
    group.send(whole, 0).wait();
  }
}

constexpr std::array<Exchange, 4> exchanges = {
    {{"all-reduce",
      [](Communicator& group, const View& whole, const View&) { group.all_reduce(whole).wait(); }},
     {"all-gather", [](Communicator& group, const View& whole,
                       const View& part) { group.all_gather(part, whole).wait(); }},
     {"reduce-scatter", [](Communicator& group, const View& whole,
                           const View& part) { group.reduce_scatter(whole, part).wait(); }},
     {"message", there_and_back, 2}}};

/// Times an exchange, as often in a row as takes a few milliseconds.
class ExchangeRun {
 public:
  ExchangeRun(const Target& target, const RunConfig& config, bool processes, const Exchange& what,
              int64_t part)
      : ranks_(target, config, processes), what_(what) {
    const int64_t size = part * config.data_parallel;
    const int64_t as_many = (8 << 20) / (size * size_of(DType::f32));
    repetitions_ = static_cast<int>(std::clamp<int64_t>(as_many, 1, most_repetitions));
    if (!ranks_.here()) return;
    for (int i = 0; i < ranks_.cluster().local_ranks(); ++i) {
      Device& device = ranks_.cluster().rank(i).device;
      whole_.push_back(std::make_unique<Buffer>(device, DType::f32, Shape{size}));
      part_.push_back(std::make_unique<Buffer>(device, DType::f32, Shape{part}));
    }
  }

  double seconds() {
    return ranks_.slowest([this](Rank& rank) {
      Communicator& group = rank.groups.data;
      const auto i = static_cast<size_t>(rank.index);
      rank.device.execute(
          RandomNormal{.x = whole_[i]->view(), .deviation = 1, .stream = {1, 2, 3}, .index = {}});
      group.barrier();
      const double start = steady_seconds();
      for (int n = 0; n < repetitions_; ++n) what_.call(group, whole_[i]->view(), part_[i]->view());
      return (steady_seconds() - start) / (repetitions_ * what_.exchanges_of_call);
    });
  }

 private:
  Ranks ranks_;
  const Exchange& what_;
  int repetitions_ = 1;
  std::vector<std::unique_ptr<Buffer>> whole_, part_;
};

/// Times training steps.
class StepRun {
 public:
  StepRun(const Target& target, const RunConfig& config, bool processes)
      : ranks_(target, config, processes), batch_(random_batch(config, 0)) {
    if (!ranks_.here()) return;
    trainer_.emplace(ranks_.cluster(), config, TrainConfig{});
    trainer_->warm_up(batch_);
  }
  double seconds() {
    return Processes::of_first(ranks_.here() ? trainer_->step(batch_).seconds : 0);
  }

 private:
  Ranks ranks_;
  const Batch batch_;
  std::optional<Trainer> trainer_;
};

BenchmarkCase step_case(const RunConfig& config, bool processes) {
  return {.config = config, .make = [=](const Target& target) {
            const auto run = std::make_shared<StepRun>(target, config, processes);
            return std::make_unique<Timed>([run] { return run->seconds(); });
          }};
}

BenchmarkCase exchange_case(const Exchange& what, int64_t bytes, bool processes) {
  RunConfig config;
  config.model = find_model("gpt-tiny");
  config.data_parallel = ranks_here();
  // Where the ranks do not divide it, the tensor is a little smaller.
  const int64_t part = bytes / size_of(DType::f32) / ranks_here();
  const auto whole = static_cast<double>(part * ranks_here() * size_of(DType::f32));
  const double sent = sent_by_rank(what.name, whole, ranks_here());
  return {.config = config, .make = [=, &what](const Target& target) {
            const auto run = std::make_shared<ExchangeRun>(target, config, processes, what, part);
            return std::make_unique<Timed>(sent, "B", [run] { return run->seconds(); });
          }};
}

/// Of a model that so many ranks can share in this way; else none.
std::optional<RunConfig> config_of_step(int RunConfig::*layout) {
  RunConfig config;
  config.model = find_model("gpt-3m");
  config.*layout = ranks_here();
  config.microbatches = layout == &RunConfig::pipeline_parallel ? 2 * ranks_here() : 1;
  try {
    config.validate();
  } catch (const InputError&) {
    return std::nullopt;
  }
  return config;
}

std::optional<BenchmarkCase> case_at(const Point& point) {
  const std::string &of = point.at("of"), &size = point.at("size");
  const bool processes = point.at("by") == "processes";
  if (processes ? Processes::here() == nullptr : !on_one_host()) return std::nullopt;
  if (const auto layout = layouts.find(size); of == step && layout != layouts.end()) {
    const std::optional<RunConfig> config = config_of_step(layout->second);
    if (config) return step_case(*config, processes);
  }
  for (const Exchange& what : exchanges)
    for (const int64_t bytes : sizes)
      if (of == what.name && size == name_of_size(bytes))
        return exchange_case(what, bytes, processes);
  return std::nullopt;
}

std::vector<BenchmarkAxis> axes_of_processes() {
  BenchmarkAxis of{"of", {}}, size{"size", {}};
  for (const Exchange& what : exchanges) of.values.emplace_back(what.name);
  of.values.emplace_back(step);
  for (const int64_t bytes : sizes) size.values.push_back(name_of_size(bytes));
  for (const auto& [name, member] : layouts) size.values.push_back(name);
  return {of, size, {"by", {"threads", "processes"}}};
}

/// What the records do not have of the comparison, and how to get it.
std::vector<std::string> what_is_missing(const std::vector<Record>& records) {
  const auto have = [&](const std::string& by) {
    return std::any_of(records.begin(), records.end(),
                       [&](const Record& record) { return record.options.at("by") == by; });
  };
  if (!have("processes"))
    return {"ranks are threads here; mpirun -n 2 frugal bench processes has both"};
  if (!on_one_host())
    return {"the processes are on several hosts; on one, threads are timed beside them"};
  return {};
}

}  // namespace

const Benchmark& processes() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "processes",
      .title = "Ranks that are processes, against threads: collectives, messages and steps",
      .axes = axes_of_processes(),
      .at = case_at,
      .by_turns = {"by"},
      .reference = Reference{"by", {"threads"}},
      .columns = {{"ms", metric::time, Shows::value, 1e-3},
                  {"GB/s sent by a rank", metric::time, Shows::rate, 1e9},
                  {"time over threads'", metric::time, Shows::ratio}},
      .summary = what_is_missing,
      .processes = true};
  return benchmark;
}

}  // namespace frugal::bench
