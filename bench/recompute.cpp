// What it costs a transformer layer to compute modules again in its backward pass, and what that
// leaves in memory: forward and backward, by turns, against a layer that keeps everything.
//
// Layers: of Llama 3 8B with fused attention, 8192 tokens; of korthikanti2022's 22B with attention
// that keeps its scores, 2048 tokens; and a quarter of the first for processors, 1024 tokens.
#include "bench/benchmarks.h"
#include "engine/train/module_run.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"
#include "harness/settings/models.h"

namespace frugal::bench {
namespace {

constexpr const char* kept = "kept";  ///< a metric: from the forward to the backward pass
constexpr const char* peak = "peak";

RunConfig layer_of(const std::string& name) {
  const bool small = name == "small";
  RunConfig c;
  c.model = find_model(small ? "llama3-8b" : name);
  c.model.layers = 1;
  c.type = small ? DType::f32 : DType::bf16;
  if (c.model.positions == PositionKind::rotary) c.attention = AttentionKind::fused;
  if (small) {
    for (int64_t* size : {&c.model.hidden, &c.model.intermediate}) *size /= 4;
    for (int64_t* heads : {&c.model.heads, &c.model.kv_heads}) *heads /= 4;
    c.model.sequence = 1024;
  }
  return c;
}

/// "none", "full", or a set of modules.
RunConfig layer_that_recomputes(const Point& point) {
  RunConfig c = layer_of(point.at("layer"));
  const std::string& recompute = point.at("recompute");
  if (const auto kind = from_name<Recompute>(recompute)) {
    c.recompute = *kind;
    return c;
  }
  c.recompute = Recompute::selective;
  c.recompute_modules = layer_modules(recompute).value();
  return c;
}

class RecomputingLayer final : public CaseRun {
 public:
  RecomputingLayer(const RunConfig& config, const Target& target)
      : config_(config), target_(target) {}

  void observe(Record& record) override {
    cluster_ = target_.cluster(config_);
    run_ = std::make_unique<ModuleRun>(*cluster_);
    const ModuleMemory memory = run_->memory();
    record.add_sample(metric::work, "FLOP", memory.forward_flops + memory.backward_flops);
    int64_t bytes = 0;
    for (const Held& held : memory.kept) bytes += held.bytes;
    record.add_sample(kept, "bytes", static_cast<double>(bytes));
    record.add_sample(peak, "bytes", static_cast<double>(memory.peak_total));
  }
  void time(Record& record, bool keep) override {
    const ModuleTime seconds = run_->time();
    if (!keep) return;
    record.add_sample(metric::time, "s", seconds.forward + seconds.backward);
    record.add_sample(metric::forward_time, "s", seconds.forward);
    record.add_sample(metric::backward_time, "s", seconds.backward);
  }
  void release(Record& /*record*/) override {
    run_.reset();
    cluster_.reset();
  }
  bool holds_memory() const override { return cluster_ != nullptr; }

 private:
  const RunConfig config_;
  const Target& target_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ModuleRun> run_;
};

}  // namespace

const Benchmark& recompute() {
  using Shows = ResultColumn::Shows;
  constexpr double mib = 1 << 20;
  static const Benchmark benchmark = {
      .name = "recompute",
      .title =
          "A layer that computes modules again in its backward pass, against one that keeps all",
      .axes = {{"layer", {"small", "llama3-8b", "22B"}},
               {"recompute",
                {"none", "norm", "activation", "norm+activation", "projection",
                 "norm+projection+activation", "core-attention", "norm+core-attention+activation",
                 "mlp", "norm+mlp", "norm+projection+core-attention+mlp", "full"}}},
      .at =
          [](const Point& point) {
            const RunConfig config = layer_that_recomputes(point);
            return BenchmarkCase{.config = config, .make = [config](const Target& target) {
                                   return std::make_unique<RecomputingLayer>(config, target);
                                 }};
          },
      .by_turns = {"recompute"},
      .reference = Reference{"recompute", {"none"}},
      .columns = {{"kept, MiB", kept, Shows::value, mib},
                  {"peak, MiB", peak, Shows::value, mib},
                  {"time, ms", metric::time, Shows::value, 1e-3},
                  {.name = "times none's",
                   .metric = metric::time,
                   .shows = Shows::ratio,
                   .control = metric::forward_time},
                  {"forward, times none's", metric::forward_time, Shows::ratio},
                  {"FLOPs, times none's", metric::work, Shows::ratio}},
      .places = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::simulated}};
  return benchmark;
}

}  // namespace frugal::bench
