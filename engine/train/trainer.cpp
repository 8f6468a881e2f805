#include "engine/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal {
namespace {

Tensor to_device(Rank& rank, const std::vector<int32_t>& values) {
  const RunConfig& c = rank.config;
  Tensor tensor = rank.allocate(DType::i32, {c.model.sequence, c.micro_batch});
  if (rank.device.backed()) rank.device.copy_from_host(tensor, values.data());
  return tensor;
}

/// Whether what a rank computes is the model's, so that it must be finite.
bool meaningful(const Rank& rank) { return rank.device.backed() && rank.tensor_group.whole(); }

/// NaN where it means nothing.
double read_scalar(Rank& rank, const Tensor& scalar) {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (rank.device.backed()) rank.device.copy_to_host(&value, scalar);
  return meaningful(rank) ? value : std::numeric_limits<double>::quiet_NaN();
}

HostTensor host_integers(const std::vector<int32_t>& values, const RunConfig& c) {
  return {{c.model.sequence, c.micro_batch}, {values.begin(), values.end()}, DType::i32};
}

/// A model whose weights are one block of memory, and whose gradients are another.
template <class Model>
std::unique_ptr<Model> in_one_block(Rank& rank) {
  rank.parameters.count();
  const Model counted(rank);
  rank.run(Fill{rank.parameters.reserve(rank.ledger, rank.config.type), 0});
  auto model = std::make_unique<Model>(rank);
  rank.parameters.close();
  return model;
}

}  // namespace

double TrainConfig::learning_rate(int64_t step) const {
  const double top = optimizer.learning_rate;
  if (step < warm_up) return top * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (steps <= warm_up) return top;
  const double done = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return top * (0.1 + 0.9 * cosine);
}

Trainer::Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train)
    : cluster_(cluster),
      run_(run),
      train_(train),
      members_(static_cast<size_t>(cluster.local_ranks())) {
  cluster_.run([this](Rank& rank) {
    Member& member = of(rank);
    member.model = in_one_block<Gpt>(rank);
    member.optimizer =
        std::make_unique<Optimizer>(rank, member.model->parameters(), train_.optimizer.kind);
  });
}

double Trainer::run_batch(Rank& rank, const Batch& batch, float scale) {
  const Tensor total = rank.allocate(DType::f64, {1}, Kind::statistics);
  rank.run(Fill{total, 0});
  for (size_t k = 0; k < batch.size(); ++k) {
    const Ledger::Scope scope(rank.ledger, {-1, static_cast<int>(k)});
    rank.draw = static_cast<uint32_t>(steps_ * run_.microbatches + static_cast<int64_t>(k));
    Gpt::Saved saved;
    const Tensor losses = of(rank).model->forward(rank, to_device(rank, batch[k].tokens),
                                                  to_device(rank, batch[k].labels), saved);
    rank.run(Sum{losses, total});
    if (scale != 0) of(rank).model->backward(rank, scale, std::move(saved));
  }
  return read_scalar(rank, total);
}

void Trainer::warm_up(const Batch& batch) {
  cluster_.run([&](Rank& rank) {
    rank.training = true;
    of(rank).optimizer->clear_gradients(rank);
    run_batch(rank, batch, 1);
    rank.device.synchronize();
  });
}

StepResult Trainer::step(const Batch& batch) {
  const auto counted = static_cast<double>(std::max<int64_t>(counted_labels(batch), 1));
  OptimizerOptions options = train_.optimizer;
  options.learning_rate = train_.learning_rate(steps_);
  StepResult result;
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    rank.training = true;
    const double flops = rank.flops;
    const double start = rank.device.now();
    of(rank).optimizer->clear_gradients(rank);
    const double loss = run_batch(rank, batch, static_cast<float>(1 / counted)) / counted;
    if (meaningful(rank) && !std::isfinite(loss))
      throw WrongNumbers(
          fmt::format("the loss is {} in step {}; lower the learning rate", loss, steps_ + 1));
    const double norm = of(rank).optimizer->step(rank, options);
    rank.device.synchronize();
    const double seconds = rank.device.now() - start;
    const double share = run_.tensor_parallel / static_cast<double>(cluster_.local_ranks());

    const std::lock_guard lock(guard);
    result.loss = loss;
    result.gradient_norm = norm;
    result.seconds = std::max(result.seconds, seconds);
    result.flops += (rank.flops - flops) * share;
  });
  ++steps_;
  return result;
}

double Trainer::evaluate(const Batch& batch) {
  double loss = 0;
  cluster_.run([&](Rank& rank) {
    rank.training = false;
    const double sum = run_batch(rank, batch, 0);
    rank.training = true;
    if (rank.tensor_group.rank() == 0) loss = sum;
  });
  return loss / static_cast<double>(std::max<int64_t>(counted_labels(batch), 1));
}

HostTensors Trainer::snapshot(const MicroBatch& batch) {
  if (!cluster_.whole())
    throw std::logic_error("a snapshot needs all ranks, and some of this cluster are absent");
  const ModelConfig& m = run_.model;
  const double counted = static_cast<double>(std::max<int64_t>(counted_labels({batch}), 1));
  HostTensors tensors;
  tensors["tokens"] = host_integers(batch.tokens, run_);
  tensors["labels"] = host_integers(batch.labels, run_);
  tensors["logits"] = serial_host_tensor({m.sequence * run_.micro_batch, m.vocabulary});
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    Gpt& model = *of(rank).model;
    of(rank).optimizer->clear_gradients(rank);
    rank.draw = static_cast<uint32_t>(steps_ * run_.microbatches);
    Gpt::Saved saved;
    const Tensor losses =
        model.forward(rank, to_device(rank, batch.tokens), to_device(rank, batch.labels), saved);
    const Tensor total = rank.allocate(DType::f64, {1}, Kind::statistics);
    rank.run(Fill{total, 0});
    rank.run(Sum{losses, total});
    {
      const std::lock_guard lock(guard);
      const View logits = saved.head.logits;
      gather_into(tensors["logits"], rank.device, logits,
                  {.offset = rank.tensor_group.rank() * logits.cols(),
                   .run = logits.cols(),
                   .stride = m.vocabulary});
      tensors["loss"] = {{1}, {read_scalar(rank, total) / counted}};
    }
    model.backward(rank, static_cast<float>(1 / counted), std::move(saved));
    of(rank).optimizer->sum_partial_gradients(rank);
    const std::lock_guard lock(guard);
    for (const Parameter* p : model.parameters()) {
      for (const auto& [kind, view] : {std::pair{"weight/", p->view()}, {"gradient/", p->grad()}}) {
        auto [entry, created] = tensors.try_emplace(kind + p->name);
        if (created) entry->second = serial_host_tensor(p->serial_shape);
        gather_into(entry->second, rank.device, view, p->global_index(rank));
      }
    }
  });
  return tensors;
}

void Trainer::load_weights(const HostTensors& tensors) {
  cluster_.run([&](Rank& rank) {
    Member& member = of(rank);
    for (const Parameter* p : member.model->parameters()) {
      const auto found = tensors.find("weight/" + p->name);
      const HostTensor expected = serial_host_tensor(p->serial_shape);
      if (found == tensors.end())
        throw InputError(fmt::format("tensor weight/{} is missing", p->name));
      if (found->second.shape != expected.shape)
        throw InputError(fmt::format("tensor weight/{} has shape [{}], the model needs [{}]",
                                     p->name, fmt::join(found->second.shape, ", "),
                                     fmt::join(expected.shape, ", ")));
      scatter_from(found->second, rank.device, p->view(), p->global_index(rank));
    }
    member.optimizer =
        std::make_unique<Optimizer>(rank, member.model->parameters(), train_.optimizer.kind);
  });
}

}  // namespace frugal
