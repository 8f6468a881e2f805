// Mini-sequences on this processor (mst2024): time and memory of a training step of a small Llama
// whose MLP and output head compute the sequence in M parts, against M = 1.
//
// Sizes: one whose parts C = s/M never have fewer tokens than the hidden size d, where the weights
// that each part reads anew are the smaller operand, and one with few tokens. Proportions of
// Llama3-8B (I = 3.5 d, v = 31.3 d), 2 layers, fused attention, AdamW that steps in the backward
// pass; float32.
#include <fmt/format.h>

#include "bench/benchmarks.h"
#include "bench/numbers.h"
#include "bench/own_process.h"
#include "engine/train/trainer.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

/// A metric of each case: C/d.
constexpr const char* tokens_over_hidden = "part_tokens_over_hidden_size";

std::vector<BenchmarkAxis> mini_sequence_axes() {
  return {{"size", {"d256-s4096", "d512-s1024"}},
          {"recompute", {"full", "none"}},
          {"mini_sequences", {"1", "2", "4", "8", "16"}}};
}

RunConfig mini_sequence_config(const Point& point) {
  const bool long_one = point.at("size") == "d256-s4096";
  const int64_t hidden = long_one ? 256 : 512;
  RunConfig c;
  c.model = {.name = "mini-sequence",
             .layers = 2,
             .hidden = hidden,
             .heads = 4,
             .sequence = long_one ? 4096 : 1024,
             .vocabulary = hidden * 501 / 16,
             .dropout = 0,
             .kv_heads = 1,
             .intermediate = hidden * 7 / 2,
             .norm = NormKind::rms,
             .mlp = MlpKind::swiglu,
             .bias = BiasKind::none,
             .positions = PositionKind::rotary,
             .tied = false};
  c.attention = AttentionKind::fused;
  c.recompute = from_name<Recompute>(point.at("recompute")).value();
  c.step_in_backward = true;
  c.mlp_chunks = c.head_chunks = std::stoll(point.at("mini_sequences"));
  return c;
}

TrainConfig adamw_without_clipping() { return {.optimizer = {.learning_rate = 1e-4, .clip = 0}}; }

void add_part_size(const RunConfig& config, Record& record) {
  const int64_t tokens = config.model.sequence / config.mlp_chunks;
  record.add_sample(tokens_over_hidden, "1",
                    static_cast<double>(tokens) / static_cast<double>(config.model.hidden));
}

/// Training steps, beside the matrix multiplications that each executes.
class MiniSequenceSteps final : public CaseRun {
 public:
  MiniSequenceSteps(const RunConfig& config, const Target& target)
      : config_(config), target_(target) {}

  void observe(Record& record) override {
    add_part_size(config_, record);
    cluster_ = target_.cluster(config_);
    trainer_.emplace(*cluster_, config_, adamw_without_clipping());
    batch_ = random_batch(config_, 0);
    record.add_sample(metric::work, "FLOP", trainer_->step(batch_).flops);
  }
  void time(Record& record, bool keep) override {
    const double seconds = trainer_->step(batch_).seconds;
    if (keep) record.add_sample(metric::time, "s", seconds);
  }
  void release(Record& /*record*/) override {
    trainer_.reset();
    cluster_.reset();
  }
  bool holds_memory() const override { return cluster_ != nullptr; }

 private:
  const RunConfig config_;
  const Target& target_;
  std::unique_ptr<Cluster> cluster_;
  std::optional<Trainer> trainer_;
  Batch batch_;
};

/// Bytes by name, of two steps, the second with all that the first has left, on a cluster of this
/// process alone.
nlohmann::json memory_of_two_steps(const RunConfig& config,
                                   const std::function<std::unique_ptr<Cluster>()>& make) {
  const int64_t before = resident().now;
  const auto cluster = make();
  Trainer trainer(*cluster, config, adamw_without_clipping());
  for (int64_t step = 0; step < 2; ++step) trainer.step(random_batch(config, step));
  const Ledger& ledger = cluster->rank(0).ledger;
  nlohmann::json bytes = {{"ledger_peak", ledger.peak()},
                          {"reserved", cluster->rank(0).device.reserved()},
                          {"resident_before", before},
                          {"resident_peak", resident().peak}};
  for (int i = 0; i < kind_count; ++i)
    bytes[fmt::format("ledger_at_peak/{}", name_of(static_cast<Kind>(i)))] =
        ledger.at_peak()[static_cast<size_t>(i)];
  return bytes;
}

/// The most that was in use by the ledger, and by how much the operating system saw the process
/// grow: with an allocator that keeps all that it is given back, and with one that may take no more
/// from the system than the ledger's peak. Each in a process of its own.
class MiniSequenceMemory final : public CaseRun {
 public:
  MiniSequenceMemory(const RunConfig& config, const Target& target)
      : config_(config), target_(target) {}

  void observe(Record& record) override {
    add_part_size(config_, record);
    const nlohmann::json kept = in_own_process(
        [&] { return memory_of_two_steps(config_, [&] { return target_.cluster(config_); }); });
    stop_if_interrupted();
    const auto peak = kept.at("ledger_peak").get<int64_t>();
    const nlohmann::json within = in_own_process([&] {
      return memory_of_two_steps(config_, [&] { return target_.cluster_with(config_, peak); });
    });
    add_memory(kept, within, record);
  }

 private:
  const RunConfig config_;
  const Target& target_;
};

template <class Run>
std::optional<BenchmarkCase> mini_sequence_case(const Point& point) {
  const RunConfig config = mini_sequence_config(point);
  return BenchmarkCase{.config = config, .make = [config](const Target& target) {
                         return std::make_unique<Run>(config, target);
                       }};
}

}  // namespace

const Benchmark& mini_sequence() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "mini-sequence",
      .title = "Time of training steps whose MLP and head compute a sequence in M parts (mst2024)",
      .axes = mini_sequence_axes(),
      .at = mini_sequence_case<MiniSequenceSteps>,
      .by_turns = {"mini_sequences"},
      .reference = Reference{"mini_sequences", {"1"}},
      .columns = {{"C/d", tokens_over_hidden},
                  {"step, ms", metric::time, Shows::value, 1e-3},
                  {"times M = 1", metric::time, Shows::ratio},
                  {"FLOPs, times M = 1", metric::work, Shows::ratio}}};
  return benchmark;
}

const Benchmark& mini_sequence_memory() {
  using Shows = ResultColumn::Shows;
  constexpr double mib = 1 << 20;
  static const Benchmark benchmark = {
      .name = "mini-sequence-memory",
      .title = "Memory of the same steps, by the ledger and by the operating system",
      .axes = mini_sequence_axes(),
      .at = mini_sequence_case<MiniSequenceMemory>,
      .reference = Reference{"mini_sequences", {"1"}},
      .columns = {{"C/d", tokens_over_hidden},
                  {"ledger, MiB", "ledger_peak", Shows::value, mib},
                  {"times M = 1", "ledger_peak", Shows::ratio},
                  {"resident, MiB", "resident_growth_within_peak", Shows::value, mib},
                  {"resident, times M = 1", "resident_growth_within_peak", Shows::ratio},
                  {"with all kept, MiB", "resident_growth", Shows::value, mib},
                  {"with all kept, times M = 1", "resident_growth", Shows::ratio}}};
  return benchmark;
}

}  // namespace frugal::bench
