#include "engine/checkpoint/gather.h"
#include "engine/train/trainer.h"

namespace frugal::engine {
namespace {

/// Bytes of a microbatch's token ids, where the stage begins with them, and of its labels.
double input_bytes(const RunConfig& config, StageModel& model) {
  int64_t tensors = 0;
  for (int chunk = 0; chunk < config.chunks; ++chunk) {
    const ModelPart& part = model.part(chunk).part();
    tensors += int64_t{part.first} + int64_t{part.last};
  }
  return static_cast<double>(tensors * config.group_sequence() * config.micro_batch *
                             size_of(DType::i32));
}

}  // namespace

StepWork Trainer::work() const { return most_work(of_all_ranks(cluster_, std::vector{work_})); }

void Trainer::note_work(const Rank& rank, const WorkSoFar& before, size_t batches) {
  StageModel& model = *of(rank).model;
  const double share = 1 / static_cast<double>(batches);
  StepWork work{
      .stage = rank.stage(),
      .done = {},
      .least = least_bytes(rank, model.parameters(),
                           {.microbatches = static_cast<double>(run_.microbatches),
                            .kept = share * static_cast<double>(rank.ledger.kept() - before.kept),
                            .inputs = input_bytes(run_, model)})};
  work.done.add(rank.device.work(), share);
  work.done.add(before.done, -share);
  work_ = most_work({work_, work});
}

}  // namespace frugal::engine
