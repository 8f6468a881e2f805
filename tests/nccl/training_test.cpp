// Small models on several emulated GPUs, divided in every way, beside the same on the CPU.
#include "tests/cuda/losses.h"
#include "tests/main/left_out.h"

namespace frugal::engine {
namespace {

void choose_pipeline(RunConfig& run, ScheduleKind schedule) {
  run.pipeline_parallel = 2;
  run.microbatches = 4;
  run.micro_batch = 1;
  run.schedule = schedule;
}

/// Attention over them is fused, which cuDNN computes in bf16, and draws masks of its own.
void share_sequences(RunConfig& run, ContextKind kind) {
  run.context_parallel = 2;
  run.context = kind;
  run.attention = AttentionKind::fused;
  run.type = DType::bf16;
  run.model.dropout = 0;
}

const std::vector<Variant>& divisions() {
  static const std::vector<Variant> all = {
      {"tensor", [](RunConfig& run) { run.tensor_parallel = 2; }},
      {"sequence",
       [](RunConfig& run) {
         run.tensor_parallel = 2;
         run.sequence_parallel = true;
         run.recompute = Recompute::selective;
       }},
      {"ulysses", [](RunConfig& run) { share_sequences(run, ContextKind::ulysses); }},
      {"ring", [](RunConfig& run) { share_sequences(run, ContextKind::ring); }},
      {"data",
       [](RunConfig& run) {
         run.data_parallel = 2;
         run.micro_batch = 1;
       }},
      {"gpipe", [](RunConfig& run) { choose_pipeline(run, ScheduleKind::gpipe); }},
      {"flush",
       [](RunConfig& run) { choose_pipeline(run, ScheduleKind::one_forward_one_backward); }},
      {"two_buffered", [](RunConfig& run) { choose_pipeline(run, ScheduleKind::two_buffered); }},
      {"zero_bubble", [](RunConfig& run) { choose_pipeline(run, ScheduleKind::zero_bubble_h1); }},
      {"interleaved",
       [](RunConfig& run) {
         choose_pipeline(run, ScheduleKind::interleaved);
         run.chunks = 2;
         run.model.layers = 4;
       }},
      {"interleaved_4",
       [](RunConfig& run) {
         choose_pipeline(run, ScheduleKind::interleaved);
         run.pipeline_parallel = 4;
         run.microbatches = 8;
         run.chunks = 2;
         run.model.layers = 8;
       }},
      {"all",
       [](RunConfig& run) {
         choose_pipeline(run, ScheduleKind::one_forward_one_backward);
         run.tensor_parallel = 2;
         run.sequence_parallel = true;
         run.data_parallel = 2;
         run.recompute = Recompute::full;
       }},
  };
  return all;
}

class TrainingOnSeveralGpus : public ::testing::TestWithParam<Variant> {};

TEST_P(TrainingOnSeveralGpus, LearnsWhatTheCpuLearns) {
  RunConfig run = tiny_gpt();
  run.type = DType::f64;  // so that little but the order of sums can differ
  GetParam().choose(run);
  constexpr int64_t steps = 5;  // the fifth is of the first's batch
  expect_losses_of_the_cpu(run, steps);
}

FRUGAL_LEFT_OUT(any, "Small/TrainingOnSeveralGpus.*",
                "minutes, and kernels in fibers, which the thread sanitizer does not know");
INSTANTIATE_TEST_SUITE_P(Small, TrainingOnSeveralGpus, ::testing::ValuesIn(divisions()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal::engine
