#include "engine/data/single_batch.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/model/parallel.h"
#include "engine/schedule/schedules.h"

namespace frugal::engine {

bool meaningful(const Rank& rank) { return rank.device.backed() && rank.whole(); }

double share_of(const Rank& rank, double loss) {
  const bool is_last_stage = rank.stage() == rank.config.part_layout().last_stage();
  if (!is_last_stage || rank.tensor_group.rank() != 0) return 0;
  return meaningful(rank) ? loss : std::numeric_limits<double>::quiet_NaN();
}

double sum_of_shares(const std::vector<double>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

double counted(const Batch& batch) {
  return static_cast<double>(std::max<int64_t>(counted_labels(batch), 1));
}

Tensor local_integers(const RankAt& at, const std::vector<int32_t>& values) {
  const Rank& rank = at.rank;
  const RunConfig& c = rank.config;
  Tensor tensor = at.allocate(DType::i32, {c.group_sequence(), c.micro_batch});
  if (!rank.device.backed()) return tensor;
  for (const Positions::Piece& piece : parallel::group_positions(rank))
    rank.device.copy_from_host(piece.of(tensor), values.data() + piece.first * c.micro_batch);
  return tensor;
}

bool belongs_to_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::receive_activation ||
         kind == ActionKind::send_activation;
}

Batch filled(const RunConfig& c, Batch batch) {
  const auto replicas = static_cast<size_t>(c.data_parallel);
  const auto stages = static_cast<size_t>(c.pipeline_parallel);
  // A kind that keeps several chunks is used as it is; the others' forward passes go in any number.
  const size_t least = c.schedule.has_chunks
                           ? replicas * stages * static_cast<size_t>(c.schedule.least_per_stage)
                           : 0;
  MicroBatch unlabelled = batch.front();
  for (int32_t& label : unlabelled.labels) label = CrossEntropy::ignored_label;
  while (batch.size() % replicas != 0 || batch.size() < least) batch.push_back(unlabelled);
  return batch;
}

Schedule schedule_of(const RunConfig& c, const ScheduleKind& kind, const Batch& batch, int newest,
                     bool (*kept)(ActionKind)) {
  Schedule schedule =
      make_schedule(c.schedule.has_chunks ? c.schedule : kind,
                    {.stages = c.pipeline_parallel,
                     .chunks = c.chunks,
                     .microbatches = static_cast<int>(batch.size()) / c.data_parallel,
                     .first_batch = newest,
                     .together = c.overlaps_passes() && kept(ActionKind::backward)});
  for (Actions& actions : schedule.actions)
    std::erase_if(actions, [&](const Action& action) { return !kept(action.kind); });
  return schedule;
}

bool computes_gradients(ActionKind kind) { return kind != ActionKind::step; }

}  // namespace frugal::engine
