// Mini-sequences on this processor (mst2024): memory and time of a training step of a small Llama
// whose MLP and output head compute the sequence in M parts, against M = 1.
//
// Memory of each case is observed in processes of their own: the most that was in use by the
// ledger, and by how much the operating system saw the process grow, with an allocator that may
// take no more than that from it, and with one that keeps all that it is given back. Times are
// taken in rounds of all M of a size, beside the matrix multiplications that each executes. Sizes:
// one whose parts C = s/M never have fewer tokens than the hidden size d, where the weights that
// each part reads anew are the smaller operand, and one with few tokens. Proportions of Llama3-8B
// (I = 3.5 d, v = 31.3 d), 2 layers, fused attention, AdamW that steps in the backward pass;
// float32.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <optional>

#include "bench/own_process.h"
#include "bench/report.h"
#include "engine/train/trainer.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/place/environment.h"
#include "harness/report/table.h"
#include "kernels/cpu/waiting.h"
#include "kernels/support/error.h"

namespace frugal::bench {
namespace {

constexpr std::array<int64_t, 5> all_parts{1, 2, 4, 8, 16};

struct Size {
  int64_t hidden, sequence;
};
constexpr std::array sizes{Size{256, 4096}, Size{512, 1024}};

RunConfig config_of(const Size& size, Recompute recompute, int64_t parts) {
  RunConfig c;
  c.model = {.name = "mini-sequence",
             .layers = 2,
             .hidden = size.hidden,
             .heads = 4,
             .sequence = size.sequence,
             .vocabulary = size.hidden * 501 / 16,
             .dropout = 0,
             .kv_heads = 1,
             .intermediate = size.hidden * 7 / 2,
             .norm = NormKind::rms,
             .mlp = MlpKind::swiglu,
             .bias = BiasKind::none,
             .positions = PositionKind::rotary,
             .tied = false};
  c.attention = AttentionKind::fused;
  c.recompute = recompute;
  c.step_in_backward = true;
  c.mlp_chunks = c.head_chunks = parts;
  return c;
}

TrainConfig training() { return {.optimizer = {.learning_rate = 1e-4, .clip = 0}}; }

/// What two steps take, the second with all that the first has left, on a device with so many
/// bytes.
nlohmann::json memory_of(const RunConfig& config, int threads, std::optional<int64_t> memory = {}) {
  const int64_t before = resident().now;
  const auto cluster =
      make_cpu_cluster(config, threads, LocalGroup::default_deadline, Pinning::none, memory);
  Trainer trainer(*cluster, config, training());
  for (int64_t step = 0; step < 2; ++step) trainer.step(random_batch(config, step));
  const Ledger& ledger = cluster->rank(0).ledger;
  nlohmann::json kinds;
  for (int i = 0; i < kind_count; ++i)
    kinds[std::string(name_of(static_cast<Kind>(i)))] = ledger.at_peak()[static_cast<size_t>(i)];
  return {{"ledger_peak", ledger.peak()},
          {"ledger_at_peak", kinds},
          {"reserved", cluster->rank(0).device.reserved()},
          {"resident_before", before},
          {"resident_peak", resident().peak}};
}

class Case {
 public:
  Case(const Size& size, Recompute recompute, int64_t parts, int threads)
      : config_(config_of(size, recompute, parts)),
        memory_(in_own_process([&] { return memory_of(config_, threads); })),
        bounded_(in_own_process([&] {
          return memory_of(config_, threads, memory_.at("ledger_peak").get<int64_t>());
        })) {}

  /// After the last in_own_process() of this process.
  void prepare(int threads) {
    cluster_ = make_cpu_cluster(config_, threads);
    trainer_ = std::make_unique<Trainer>(*cluster_, config_, training());
    batch_ = random_batch(config_, 0);
  }
  void run(bool keep) {
    const StepResult step = trainer_->step(batch_);
    flops_ = step.flops;
    if (keep) seconds_.push_back(step.seconds);
  }
  void release() {
    trainer_.reset();
    cluster_.reset();
  }

  const RunConfig& config() const { return config_; }
  const std::vector<double>& seconds() const { return seconds_; }
  double flops() const { return flops_; }
  double ledger_peak() const { return memory_.at("ledger_peak").get<double>(); }
  /// By how much the process grew, as the operating system saw it.
  double grown() const { return growth(memory_); }
  /// The same where the allocator has no more than the ledger's peak.
  double grown_within_peak() const { return growth(bounded_); }

  nlohmann::json json() const {
    const ModelConfig& m = config_.model;
    return {{"hidden_size", m.hidden},
            {"sequence_length", m.sequence},
            {"recompute", name_of(config_.recompute)},
            {"mini_sequences", config_.mlp_chunks},
            {"memory", memory_},
            {"memory_within_peak", bounded_},
            {"flops", flops_},
            {"seconds", seconds_}};
  }

 private:
  static double growth(const nlohmann::json& memory) {
    return memory.at("resident_peak").get<double>() - memory.at("resident_before").get<double>();
  }

  RunConfig config_;
  nlohmann::json memory_, bounded_;
  double flops_ = 0;  // of a step's matrix multiplications
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Trainer> trainer_;
  Batch batch_;
  std::vector<double> seconds_;
};

/// The M of one size, the first of which is 1.
using Group = std::vector<std::unique_ptr<Case>>;

/// The columns that say which case a row is of.
std::vector<std::string> names_of(const RunConfig& c) {
  const int64_t chunk = c.model.sequence / c.mlp_chunks;
  return {fmt::format("d {}, s {}, recompute {}", c.model.hidden, c.model.sequence,
                      name_of(c.recompute)),
          std::to_string(c.mlp_chunks),
          fmt::format("{:.3g}", static_cast<double>(chunk) / static_cast<double>(c.model.hidden))};
}

/// In MiB, and relative to M = 1.
Table memory_table(const std::vector<Group>& groups) {
  Table table{{{"case"},
               {"M", true},
               {"C/d", true},
               {"ledger MiB", true},
               {"resident", true},
               {"with all kept", true}},
              {}};
  for (const Group& group : groups)
    for (const auto& c : group) {
      const Case& whole = *group.front();
      std::vector<std::string>& row = table.rows.emplace_back(names_of(c->config()));
      const std::array<std::pair<double, double>, 3> memory{
          {{c->ledger_peak(), whole.ledger_peak()},
           {c->grown_within_peak(), whole.grown_within_peak()},
           {c->grown(), whole.grown()}}};
      for (const auto& [bytes, of_whole] : memory)
        row.push_back(fmt::format("{:.1f} ({:.3f})", bytes / (1 << 20), bytes / of_whole));
    }
  return table;
}

Table time_table(const std::vector<Group>& groups) {
  Table table{{{"case"},
               {"M", true},
               {"C/d", true},
               {"step ms", true},
               {"times M = 1", true},
               {"FLOPs, times M = 1", true}},
              {}};
  for (const Group& group : groups)
    for (const auto& c : group) {
      const Estimate ratio = paired_ratio(c->seconds(), group.front()->seconds());
      std::vector<std::string>& row = table.rows.emplace_back(names_of(c->config()));
      row.push_back(fmt::format("{:.1f}", 1e3 * median(c->seconds())));
      row.push_back(fmt::format("{:.3f}", ratio.value));
      if (ratio.interval)
        row.back() += fmt::format(" [{:.3f}, {:.3f}]", ratio.interval->low, ratio.interval->high);
      row.push_back(fmt::format("{:.3f}", c->flops() / group.front()->flops()));
    }
  return table;
}

/// All M of a size in the same rounds.
void time(const Group& group, const TimingPlan& plan, int threads) {
  std::vector<std::function<void(bool)>> runs;
  for (const auto& c : group) {
    c->prepare(threads);
    runs.emplace_back([&c](bool keep) { c->run(keep); });
  }
  time_interleaved(runs, plan);
  for (const auto& c : group) c->release();
}

struct Options {
  TimingPlan plan{.warm_up = 1, .samples = 15, .budget = 120};
  int threads = usable_processors();
  bool memory_only = false;
  std::string json;
};

void measure(const Options& options) {
  std::vector<Group> groups;
  for (const Size& size : sizes)
    for (const Recompute recompute : {Recompute::full, Recompute::none}) {
      Group& group = groups.emplace_back();
      for (const int64_t parts : all_parts)
        group.push_back(std::make_unique<Case>(size, recompute, parts, options.threads));
    }
  fmt::print("{}", memory_table(groups).text());
  const double load_before = load();
  if (!options.memory_only) {
    for (const Group& group : groups) time(group, options.plan, options.threads);
    fmt::print("\n{} threads; load {:.1f} before, {:.1f} after\n{}", options.threads, load_before,
               load(), time_table(groups).text());
  }
  nlohmann::json all = nlohmann::json::array();
  for (const Group& group : groups)
    for (const auto& c : group) all.push_back(c->json());
  write_json(options.json, {{"schema", "frugal.mini_sequence/1"},
                            {"threads", options.threads},
                            {"load", {load_before, load()}},
                            {"environment", environment(DeviceKind::cpu)},
                            {"cases", all}});
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::bench::Options options;
  CLI::App app("Training steps in mini-sequences on this processor", "frugal_bench_mini_sequence");
  app.add_option("--samples", options.plan.samples,
                 "Rounds of each size that are wanted, at least 10");
  app.add_option("--budget", options.plan.budget,
                 "Seconds after which no round of a size beyond 10 begins");
  app.add_option("--threads", options.threads, "Kernel threads; all processors otherwise")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--memory-only", options.memory_only,
               "Time nothing: memory does not depend on what else the machine does");
  app.add_option("--json", options.json, "File for raw samples");
  try {
    app.parse(argc, argv);
    frugal::bench::measure(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const frugal::kernels::InputError& error) {
    fmt::print(stderr, "frugal_bench_mini_sequence: {}\n", error.what());
    return 2;
  }
}
