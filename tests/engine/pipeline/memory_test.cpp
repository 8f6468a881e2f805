#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/train/trainer.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

/// Bytes that each stage of a pipeline holds, from the ledger, equal the formulas of
/// pipedream2bw2021 (sections 3.1 to 3.3) to the byte: weights in as many versions as the schedule
/// needs, and the activations of the microbatches in flight. Formulas of the paper count one stage
/// as |W|/d and A/d; here are the embedding and the output head of the first and the last stage
/// too. Not part of them, because the papers neglect them: statistics, what operations work in, and
/// messages.
namespace frugal::engine {
namespace {

/// One stage's bytes, in terms of the paper. Symbols: s, b, h, v, a of the model; t, d of the run.
class Formula {
 public:
  Formula(const RunConfig& run, int stage)
      : run_(run),
        stage_(stage),
        first_(stage == 0),
        last_(stage + 1 == run.pipeline_parallel),
        layers_(run.model.layers / (run.pipeline_parallel * run.chunks)) {}

  /// |W_s|, with 2 bytes for a weight.
  int64_t weights() const {
    const auto& [h, t] = std::pair{run_.model.hidden, run_.tensor_parallel};
    int64_t elements = layers_ * run_.chunks * ((12 * h * h + 7 * h) / t + 6 * h);
    if (first_) elements += run_.model.vocabulary * h / t + run_.model.sequence * h;
    if (last_) elements += run_.model.vocabulary * h / t + 2 * h;  // the table's copy
    return 2 * elements;
  }

  /// Versions of weights: one with a flush, two with 2BW, one for each microbatch in flight when
  /// each makes a version (m = 1), and with vertical sync as many as the first stage on all stages.
  int64_t versions() const {
    const ScheduleKind& kind = run_.schedule;
    if (kind == ScheduleKind::two_buffered) return 2;
    if (kind == ScheduleKind::pipedream) return run_.pipeline_parallel - stage_;
    if (kind == ScheduleKind::pipedream_vertical_sync) return run_.pipeline_parallel;
    return 1;
  }

  /// Passes forward without their backward, at most.
  int64_t in_flight(int64_t batches) const {
    const int64_t d = run_.pipeline_parallel, v = run_.chunks, m = run_.microbatches;
    const ScheduleKind& kind = run_.schedule;
    if (kind == ScheduleKind::inter_layer) return 1;
    if (kind == ScheduleKind::gpipe) return m;
    if (kind == ScheduleKind::interleaved)
      return std::min(2 * (d - 1 - stage_) + (v - 1) * d + 1, v * m);
    if (kind == ScheduleKind::pipedream || kind == ScheduleKind::pipedream_vertical_sync)
      return std::min(d - stage_, m * batches);
    return std::min(d - stage_, m);
  }

  /// Bytes at their peak. With recomputation of a layer or a stage that is a backward pass, which
  /// has the whole layer or stage again and counts its input once; on the last stage it may be the
  /// moment before, when the output head is still there and nothing is computed again.
  int64_t activations(int64_t batches) const {
    const int64_t n = in_flight(batches);
    const int64_t embedding = first_ ? elements() : 0;  // dropout's mask
    switch (run_.recompute) {
      case Recompute::none:
      case Recompute::selective:
        return n * (layers_ * layer() + embedding + head());
      case Recompute::full: {
        const int64_t kept = n * (layers_ * input() + embedding + head());
        return std::max(kept, kept - head() + layer() - input());
      }
      case Recompute::stage: {
        const int64_t kept = first_ ? 0 : input();  // the first stage's are tokens
        return (n - 1) * kept + layers_ * layer() + embedding + head();
      }
    }
    return 0;
  }

 private:
  /// sbh, or its part of one rank where the sequence is divided.
  int64_t elements() const {
    const int64_t sbh = run_.model.sequence * run_.micro_batch * run_.model.hidden;
    return run_.sequence_parallel ? sbh / run_.tensor_parallel : sbh;
  }
  int64_t input() const { return 2 * elements(); }
  /// korthikanti2022, table 2.
  int64_t layer() const {
    const ModelConfig& m = run_.model;
    const int64_t t = run_.tensor_parallel;
    const int64_t core = 5 * m.heads * m.sequence * m.sequence * run_.micro_batch / t;
    return 10 * elements() + 24 * m.sequence * run_.micro_batch * m.hidden / t +
           (run_.recompute == Recompute::selective ? 0 : core);
  }
  /// Inputs of the last norm and of the output layer, and float32 logits (korthikanti2022, section
  /// 4.3).
  int64_t head() const {
    if (!last_) return 0;
    return 4 * elements() + 4 * run_.model.sequence * run_.micro_batch * run_.model.vocabulary /
                                run_.tensor_parallel;
  }

  const RunConfig& run_;
  int stage_;
  bool first_, last_;
  int64_t layers_;
};

struct Kinds {
  ScheduleKind schedule;
  int64_t microbatches;
  int chunks = 1;
};

/// A flush in the middle, and so many batches that a pipeline without one is full for a while.
int64_t batches_of(const RunConfig& run) {
  return run.schedule.flushes ? 2 : 2 * run.pipeline_parallel;
}

void expect_formulas(Cluster& cluster, const RunConfig& run) {
  const int64_t batches = batches_of(run);
  Trainer trainer(cluster, run, {.optimizer = {.kind = OptimizerKind::sgd, .clip = 0}});
  std::vector<Batch> all;
  for (int64_t i = 0; i < batches; ++i)
    all.push_back(cluster.rank(0).device.backed()
                      ? random_batch(run, i)
                      : Batch(static_cast<size_t>(run.batch_microbatches())));
  trainer.run(all);
  for (int i = 0; i < cluster.local_ranks(); ++i) {
    const Rank& rank = cluster.rank(i);
    const Formula formula(run, rank.stage());
    SCOPED_TRACE(fmt::format(
        "stage {} of {}, m = {}, recompute {}, t = {}{}, schedule {}", rank.stage(),
        run.pipeline_parallel, run.microbatches, name_of(run.recompute), run.tensor_parallel,
        run.sequence_parallel ? " with sequence parallelism" : "", name_of(run.schedule)));
    EXPECT_EQ(rank.ledger.peak(Kind::parameter), formula.versions() * formula.weights());
    const bool inner = rank.stage() > 0 && rank.stage() + 1 < run.pipeline_parallel;
    // Which chunks are in flight at the peak decides how often the ends of the model are held.
    if (run.chunks > 1 && !inner) continue;
    EXPECT_EQ(rank.ledger.peak(Kind::activation), formula.activations(batches));
  }
}

/// Every schedule of the paper and the interleaved one, with batches smaller and larger than the
/// pipeline where they may be.
std::vector<Kinds> schedules(int64_t d) {
  return {{ScheduleKind::inter_layer, d},
          {ScheduleKind::gpipe, d / 2},
          {ScheduleKind::gpipe, 2 * d},
          {ScheduleKind::one_forward_one_backward, d / 2},
          {ScheduleKind::one_forward_one_backward, d},
          {ScheduleKind::one_forward_one_backward, 2 * d + 1},
          {ScheduleKind::two_buffered, d},
          {ScheduleKind::two_buffered, 2 * d},
          {ScheduleKind::pipedream, 1},
          {ScheduleKind::pipedream_vertical_sync, 1},
          {ScheduleKind::interleaved, d, 2},
          {ScheduleKind::interleaved, 2 * d, 2}};
}

RunConfig with(RunConfig run, int d, const Kinds& kind, Recompute recompute, int t, bool sequence) {
  run.pipeline_parallel = d;
  run.schedule = kind.schedule;
  run.chunks = kind.chunks;
  run.microbatches = kind.microbatches;
  run.model.layers = 2 * d * kind.chunks;
  run.recompute = recompute;
  run.tensor_parallel = t;
  run.sequence_parallel = sequence;
  return run;
}

constexpr Recompute all_recompute[] = {Recompute::none, Recompute::selective, Recompute::full,
                                       Recompute::stage};

RunConfig as_the_papers_count(RunConfig run) {
  run.type = DType::bf16;
  run.stored_masks = true;
  return run;
}

TEST(PipelineMemory, OnAVirtualDeviceEqualsTheFormulasToTheByte) {
  RunConfig run;
  run.model = {.name = "test",
               .hidden = 1024,
               .heads = 16,
               .sequence = 512,
               .vocabulary = 4096,
               .dropout = 0.1};
  run.micro_batch = 2;
  const Machine machine = find_machine("a100-selene");
  for (const int d : {2, 4, 8})
    for (const Kinds& kind : schedules(d))
      for (const Recompute recompute : all_recompute)
        for (const bool sequence : {false, true}) {
          const RunConfig r =
              with(as_the_papers_count(run), d, kind, recompute, sequence ? 8 : 1, sequence);
          expect_formulas(*make_virtual_cluster(r, machine), r);
        }
  // Without sequence parallelism not everything is divided.
  for (const Recompute recompute : all_recompute) {
    const RunConfig r = with(as_the_papers_count(run), 4,
                             {ScheduleKind::one_forward_one_backward, 8}, recompute, 8, false);
    expect_formulas(*make_virtual_cluster(r, machine), r);
  }
}

TEST(PipelineMemory, OnTheCpuEqualsTheFormulasToTheByte) {
  const RunConfig run = as_the_papers_count(testing::small_gpt());
  for (const Kinds& kind : schedules(4)) {
    const RunConfig r = with(run, 4, kind, Recompute::full, 1, false);
    expect_formulas(*make_cpu_cluster(r, 1, 60), r);
  }
  for (const Recompute recompute : all_recompute) {
    const RunConfig r =
        with(run, 2, {ScheduleKind::two_buffered, 3}, recompute, 2, recompute != Recompute::full);
    expect_formulas(*make_cpu_cluster(r, 1, 60), r);
  }
}

}  // namespace
}  // namespace frugal::engine
