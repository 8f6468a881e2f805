#include <mutex>
#include <stdexcept>

#include "engine/checkpoint/gather.h"
#include "engine/comm/parallel.h"
#include "engine/data/single_batch.h"
#include "engine/optimizer/unsharded_weights.h"
#include "engine/train/trainer.h"

// What a trainer tells of its model: losses without a step, logits, gradients, weights.
namespace frugal::engine {
namespace {

HostTensor host_integers(const std::vector<int32_t>& values, const RunConfig& c) {
  return {{c.model.sequence, c.micro_batch}, {values.begin(), values.end()}, DType::i32};
}

}  // namespace

double Trainer::evaluate(const Batch& batch) {
  const Batch all = filled(run_, batch);
  const Schedule schedule = schedule_of(run_, ScheduleKind::gpipe, all, steps_, belongs_to_forward);
  std::vector<double> losses(members_.size());
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
    const StageExecutor::Result done =
        executor(rank).run({.schedule = schedule, .batches = {all}, .training = false});
    losses[static_cast<size_t>(rank.index)] = share_of(rank, done.losses.front());
  });
  return sum_of_shares(of_all_ranks(cluster_, losses)) / counted(batch);
}

void Trainer::check_values() const {
  if (!cluster_.whole() || !cluster_.rank(0).device.backed())
    throw std::logic_error("values need a device that has them, and all ranks");
}

OnLogits Trainer::collect_logits(const Rank& rank, HostTensor& all, std::mutex& guard) {
  if (rank.replica() > 0) return {};
  return [&, first = std::optional<uint32_t>()](const Pass& pass, const View& logits, int64_t row,
                                                int64_t column) mutable {
    if (!first) first = pass.draw;
    if (pass.draw != *first) return;
    const int64_t b = rank.config.micro_batch;
    const std::lock_guard lock(guard);
    for (const Positions::Piece& piece :
         parallel::group_positions(rank).of_rows(row / b, logits.rows() / b))
      gather_into(all, rank.device, logits.sliced(0, piece.row * b, piece.count * b),
                  {.offset = piece.first * b * all.shape[1] + column,
                   .run = logits.cols(),
                   .stride = all.shape[1]});
  };
}

HostTensor Trainer::logits(const MicroBatch& microbatch) {
  check_values();
  const Batch batch = filled(run_, {microbatch});
  const Schedule schedule =
      schedule_of(run_, ScheduleKind::gpipe, batch, steps_, belongs_to_forward);
  HostTensor logits =
      unwritten_host_tensor({run_.model.sequence * run_.micro_batch, run_.model.vocabulary});
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
    executor(rank).run({.schedule = schedule,
                        .batches = {batch},
                        .training = false,
                        .on_logits = collect_logits(rank, logits, guard)});
  });
  complete(cluster_, logits);
  return logits;
}

HostTensors Trainer::snapshot(const MicroBatch& microbatch) {
  check_values();
  const ModelConfig& m = run_.model;
  // The other replicas compute nothing that counts.
  const Batch batch = filled(run_, {microbatch});
  const Schedule schedule =
      schedule_of(run_, ScheduleKind::gpipe, batch, steps_, computes_gradients);
  const auto scale = static_cast<float>(1 / counted(batch));
  HostTensors tensors;
  tensors["tokens"] = host_integers(microbatch.tokens, run_);
  tensors["labels"] = host_integers(microbatch.labels, run_);
  std::vector<double> losses(members_.size());
  // Found before the ranks run: they look no name up where another may be adding one.
  HostTensor& logits = tensors["logits"];
  logits = unwritten_host_tensor({m.sequence * run_.micro_batch, m.vocabulary});
  for (const WeightName& weight : weight_names())
    for (const char* prefix : {"weight/", "gradient/"})
      tensors[prefix + weight.name] = unwritten_host_tensor(weight.shape);
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
    StageExecutor stage = executor(rank);
    stage.keep_gradients = true;
    of(rank).optimizer->clear_gradients();
    const StageExecutor::Result done =
        stage.run({.schedule = schedule,
                   .batches = {batch},
                   .scales = {scale},
                   .on_logits = collect_logits(rank, logits, guard)});
    const ParameterList parameters = of(rank).model->parameters();
    complete_gradients(rank, parameters);
    if (rank.replica() == 0)
      losses[static_cast<size_t>(rank.index)] =
          share_of(rank, done.losses.front() / counted(batch));
    for (Parameter* p : parameters) {
      const UnshardedWeight whole(rank, *of(rank).weights, *p);
      if (p->is_copy || rank.replica() > 0) continue;
      const GlobalIndex index = p->global_index(rank);
      const std::lock_guard lock(guard);
      gather_into(tensors.at("weight/" + p->name), rank.device, p->view(), index);
      gather_into(tensors.at("gradient/" + p->name), rank.device, p->grad(), index);
    }
    of(rank).optimizer->clear_gradients();
  });
  for (auto& [name, tensor] : tensors)
    if (tensor.type == DType::f32) complete(cluster_, tensor);
  tensors["loss"] = {{1}, {sum_of_shares(of_all_ranks(cluster_, losses))}};
  return tensors;
}

void Trainer::each_weight(const WeightSink& take) {
  check_values();
  for (const WeightName& weight : weight_names()) {
    HostTensor serial = unwritten_host_tensor(weight.shape);
    std::mutex guard;
    cluster_.run([&](Rank& rank) {
      const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
      for (Parameter* p : of(rank).model->parameters()) {
        if (p->is_copy || p->name != weight.name) continue;
        const UnshardedWeight whole(rank, *of(rank).weights, *p);
        if (rank.replica() > 0) continue;
        const std::lock_guard lock(guard);
        gather_into(serial, rank.device, p->view(), p->global_index(rank));
      }
    });
    complete(cluster_, serial);
    take(weight.name, serial);
  }
}

}  // namespace frugal::engine
