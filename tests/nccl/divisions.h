#pragma once
#include <vector>

#include "tests/cuda/losses.h"

namespace frugal::engine {

inline void choose_pipeline(RunConfig& run, ScheduleKind schedule) {
  run.pipeline_parallel = 2;
  run.microbatches = 4;
  run.micro_batch = 1;
  run.schedule = schedule;
}

/// Attention over them is fused, which cuDNN computes in bf16, and draws masks of its own.
inline void share_sequences(RunConfig& run, ContextKind kind) {
  run.context_parallel = 2;
  run.context = kind;
  run.attention = AttentionKind::fused;
  run.type = DType::bf16;
  run.model.dropout = 0;
}

/// Sums in buckets, or in units, beside the tensor-parallel sums of a backward pass.
inline void overlap_sums(RunConfig& run, Shard shard) {
  run.tensor_parallel = run.data_parallel = run.microbatches = 2;
  run.micro_batch = 1;
  run.shard = shard;
  run.overlap_grad_reduce = true;
  if (shard == Shard::none) run.bucket_size = 2000;
}

inline const std::vector<Variant>& divisions() {
  static const std::vector<Variant> all = {
      {"sequence",
       [](RunConfig& run) {
         run.tensor_parallel = 2;
         run.sequence_parallel = true;
         run.recompute = Recompute::selective;
       }},
      {"ulysses", [](RunConfig& run) { share_sequences(run, ContextKind::ulysses); }},
      {"zigzag_of_two",
       [](RunConfig& run) {
         share_sequences(run, ContextKind::zigzag);
         run.context_parallel = 4;
         run.ulysses_size = 2;
       }},
      {"data_overlapped", [](RunConfig& run) { overlap_sums(run, Shard::none); }},
      {"optimizer_overlapped", [](RunConfig& run) { overlap_sums(run, Shard::optimizer); }},
      {"two_buffered", [](RunConfig& run) { choose_pipeline(run, ScheduleKind::two_buffered); }},
      {"zero_bubble", [](RunConfig& run) { choose_pipeline(run, ScheduleKind::zero_bubble_h1); }},
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

}  // namespace frugal::engine
