// A pipeline of two stages on two cores: how fast each schedule is, and its bubble beside what the
// schedule alone makes of the measured passes and beside the ideal (p − 1)/m. All cases run by
// turns in the same rounds, 16 microbatches each; one pass of a stage takes tens of milliseconds,
// so that waking a thread is nothing beside it. h 512, a 8, L 4, s 128, v 128 (the head is 1 % of
// the last stage), SGD without clipping, whose norm all stages would wait for.
#include "bench/benchmarks.h"
#include "bench/numbers.h"
#include "engine/train/trainer.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"

namespace frugal::bench {
namespace {

constexpr int pipeline_stages = 2, microbatches_of_run = 16;
/// 1F1B whose timeline is not kept: what keeping it costs.
constexpr const char* without_timeline = "1f1b-without-timeline";

RunConfig pipeline_config(const ScheduleKind& schedule, int64_t microbatches) {
  RunConfig c;
  c.model = {.name = "pipeline",
             .layers = 4,
             .hidden = 512,
             .heads = 8,
             .sequence = 128,
             .vocabulary = 128,
             .dropout = 0.1};
  c.pipeline_parallel = pipeline_stages;
  c.schedule = schedule;
  c.microbatches = microbatches;
  return c;
}

class PipelineRun final : public CaseRun {
 public:
  PipelineRun(const RunConfig& config, bool keeps_timeline, const Target& target)
      : config_(config), keeps_timeline_(keeps_timeline), target_(target) {}

  void observe(Record& record) override {
    const int threads = target_.threads().value();
    cluster_ = make_cpu_cluster(config_, threads, LocalGroup::default_deadline,
                                cores_of_ranks(config_, threads));
    trainer_.emplace(
        *cluster_, config_,
        TrainConfig{.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-3, .clip = 0}});
    trainer_->keep_timeline(keeps_timeline_);
    for (int64_t i = 0; i < microbatches_of_run / config_.microbatches; ++i)
      batches_.push_back(random_batch(config_, i));
    record.add_sample(metric::work, "microbatches", microbatches_of_run);
    record.add_sample("ideal_bubble", "1", ideal_bubble(config_));
  }
  void time(Record& record, bool keep) override {
    double seconds = 0;
    for (const StepResult& result : trainer_->run(batches_)) seconds += result.seconds;
    if (!keep) return;
    record.add_sample(metric::time, "s", seconds);
    if (keeps_timeline_) add_timeline(trainer_->timeline(), config_.schedule, record);
  }
  void release(Record& /*record*/) override {
    trainer_.reset();
    cluster_.reset();
  }
  bool holds_memory() const override { return cluster_ != nullptr; }

 private:
  const RunConfig config_;
  const bool keeps_timeline_;
  const Target& target_;
  std::unique_ptr<Cluster> cluster_;
  std::optional<Trainer> trainer_;
  std::vector<Batch> batches_;
};

std::optional<BenchmarkCase> pipeline_case(const Point& point) {
  const bool keeps_timeline = point.at("schedule") != without_timeline;
  if (!keeps_timeline && point.at("microbatches") != "4") return std::nullopt;
  const auto schedule = keeps_timeline ? schedule_kind(point.at("schedule")).value()
                                       : ScheduleKind::one_forward_one_backward;
  const RunConfig config = pipeline_config(schedule, std::stoll(point.at("microbatches")));
  return BenchmarkCase{.config = config, .make = [config, keeps_timeline](const Target& target) {
                         return std::make_unique<PipelineRun>(config, keeps_timeline, target);
                       }};
}

}  // namespace

const Benchmark& pipeline() {
  using Shows = ResultColumn::Shows;
  constexpr bool no_interval = false;
  static const Benchmark benchmark = {
      .name = "pipeline",
      .title = "Schedules of a pipeline of two stages, each pinned to cores of its own",
      .axes = {{"schedule", {"inter-layer", "gpipe", "1f1b", "2bw", without_timeline}},
               {"microbatches", {"2", "4", "8"}}},
      .at = pipeline_case,
      .by_turns = {"schedule", "microbatches"},
      .reference = Reference{"schedule", {"1f1b"}},
      .columns = {
          {"microbatches/s", metric::time, Shows::rate, 1, no_interval},
          {"times 1F1B's", metric::time, Shows::speed},
          {"bubble", "bubble"},
          {"planned", "planned_bubble", Shows::value, 1, no_interval},
          {"(p − 1)/m", "ideal_bubble"},
          {"steady", "steady_bubble"},
          {"steady, planned", "planned_steady_bubble", Shows::value, 1, no_interval},
          {"forward, ms", metric::forward_time, Shows::value, 1e-3, no_interval},
          {"backward, ms", metric::backward_time, Shows::value, 1e-3, no_interval},
          {"step, ms", metric::step_time, Shows::value, 1e-3, no_interval},
          {"last stage over first", "last_stage_over_first", Shows::value, 1, no_interval}}};
  return benchmark;
}

}  // namespace frugal::bench
