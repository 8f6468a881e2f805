#include "engine/train/distributed_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "engine/checkpoint/gather.h"
#include "engine/checkpoint/serial_parameters.h"
#include "engine/data/single_batch.h"
#include "engine/model/parallel.h"
#include "engine/model/table_names.h"
#include "engine/optimizer/post_validation.h"
#include "engine/optimizer/reduction.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Uses every group once, in the same order on all ranks: NCCL makes its communicators then, and
/// groups whose were made in different orders would wait for each other.
void connect(Rank& rank) {
  for (Communicator* group : rank.groups.all())
    if (group->size() > 1) group->barrier();
}

/// Lets stages that step without meeting exchange what they will tell each other: the first message
/// between two that are no neighbours connects them, for which both hosts wait.
void connect_relay(Rank& rank) {
  if (!rank.config.validates_later() || !rank.device.backed()) return;
  const Tensor nothing = rank.allocate(DType::f64, {1});
  rank.run(Fill{nothing, 0});
  NormRelay relay(rank);
  relay.begin(nothing);
  (void)relay.all();
}

HostTensor host_integers(const std::vector<int32_t>& values, const RunConfig& c) {
  return {{c.model.sequence, c.micro_batch}, {values.begin(), values.end()}, DType::i32};
}

/// All parameters of a run, once each.
std::vector<SerialParameter> parameters_of(const RunConfig& run) {
  std::vector<SerialParameter> all = serial_parameters(run.model);
  if (run.model.tied && !run.schedule.ties_tables && run.part_layout().parts() > 1)
    all.push_back({output_table, {run.model.vocabulary, run.model.hidden}});
  return all;
}

/// A table that the last stage has of its own may differ from the first's.
std::string name_in_state(const Parameter& p, const RunConfig& run) {
  return p.is_copy && !run.schedule.ties_tables ? p.name + ".last" : p.name;
}

bool is_a_copy(const Parameter& p, const RunConfig& run) {
  return p.is_copy && run.schedule.ties_tables;
}

}  // namespace

DistributedModel::DistributedModel(Cluster& cluster, const RunConfig& run,
                                   const OptimizerOptions& optimizer)
    : cluster_(cluster),
      run_(run),
      members_(static_cast<size_t>(cluster.local_ranks())),
      optimizer_(optimizer) {
  cluster_.run([this](Rank& rank) {
    connect(rank);
    connect_relay(rank);
    Member& member = of(rank);
    auto [model, block] = in_one_block(rank, [&] { return std::make_unique<StageModel>(rank); });
    member.model = std::move(model);
    // Passes gather those that they need of weights that replicas divide.
    member.weights = std::make_unique<WeightVersions>(
        run_.shards(Shard::weights) ? ParameterList() : member.model->parameters(), block);
    make_optimizer(rank);
  });
}

void DistributedModel::make_optimizer(Rank& rank) {
  Member& member = of(rank);
  member.optimizer.reset();  // so that two states never are in memory
  member.optimizer = std::make_unique<Optimizer>(rank, member.model->parameters(), optimizer_,
                                                 member.weights->block(member.weights->newest()));
  if (run_.overlaps_sums())
    member.optimizer->reduction().sum_behind_passes({rank, member.model->completed()});
}

StageResult DistributedModel::execute(Rank& rank, const ScheduleRun& run) {
  Member& member = of(rank);
  return StageExecutor(rank, *member.model, *member.weights, *member.optimizer, run).execute();
}

std::vector<double> DistributedModel::forward(const Batch& batch, const LogitsOf& on_logits) {
  const Schedule schedule =
      schedule_of(run_, ScheduleKind::gpipe, batch, steps_, belongs_to_forward);
  std::vector<double> losses(members_.size());
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
    const StageResult done =
        execute(rank, {.schedule = schedule,
                       .batches = {batch},
                       .training = false,
                       .on_logits = on_logits ? on_logits(rank) : output_layer::OnLogits()});
    losses[static_cast<size_t>(rank.index)] = share_of(rank, done.losses.front());
  });
  return losses;
}

double DistributedModel::evaluate(const Batch& batch) {
  const std::vector<double> losses = forward(filled(run_, batch), {});
  return sum_of_shares(gather_all(cluster_, losses)) / counted(batch);
}

void DistributedModel::check_values() const {
  if (!cluster_.whole() || !cluster_.rank(0).device.backed())
    throw std::logic_error("values need a device that has them, and all ranks");
}

output_layer::OnLogits DistributedModel::collect_logits(const Rank& rank, HostTensor& all,
                                                        std::mutex& guard) {
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

HostTensor DistributedModel::logits(const MicroBatch& microbatch) {
  check_values();
  HostTensor logits =
      unwritten_host_tensor({run_.model.sequence * run_.micro_batch, run_.model.vocabulary});
  std::mutex guard;
  (void)forward(filled(run_, {microbatch}),
                [&](const Rank& rank) { return collect_logits(rank, logits, guard); });
  gather_written(cluster_, logits);
  return logits;
}

HostTensors DistributedModel::snapshot(const MicroBatch& microbatch) {
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
  for (const SerialParameter& weight : parameters_of(run_))
    for (const char* prefix : {"weight/", "gradient/"})
      tensors[prefix + weight.name] = unwritten_host_tensor(weight.shape);
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const ExactWeights exact(rank, *of(rank).weights, *of(rank).optimizer);
    of(rank).optimizer->clear_gradients();
    const StageResult done = execute(rank, {.schedule = schedule,
                                            .batches = {batch},
                                            .scales = {scale},
                                            .on_logits = collect_logits(rank, logits, guard),
                                            .keep_gradients = true});
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
    if (tensor.type == DType::f32) gather_written(cluster_, tensor);
  tensors["loss"] = {{1}, {sum_of_shares(gather_all(cluster_, losses))}};
  return tensors;
}

void DistributedModel::each_weight(const WeightSink& take) {
  check_values();
  for (const SerialParameter& weight : parameters_of(run_)) {
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
    gather_written(cluster_, serial);
    take(weight.name, serial);
  }
}

void DistributedModel::load_weights(const WeightSource& weight) {
  std::mutex guard;  // so that one weight at a time is on the host
  cluster_.run([&](Rank& rank) {
    Member& member = of(rank);
    const bool divided = run_.shards(Shard::weights);
    for (Parameter* p : member.model->parameters()) {
      const std::lock_guard lock(guard);
      const HostTensor serial = weight(p->name);
      const std::vector<int64_t> needed = extents_of(p->serial_shape);
      if (serial.shape != needed)
        throw InputError(fmt::format("tensor weight/{} has shape [{}], the model needs [{}]",
                                     p->name, fmt::join(serial.shape, ", "),
                                     fmt::join(needed, ", ")));
      if (divided) p->weight = rank.allocate(p->weight.shape(), Kind::communication);
      scatter_from(serial, rank.device, p->view(), p->global_index(rank));
      if (divided) p->keep_part(rank, member.weights->block(member.weights->newest()));
    }
    make_optimizer(rank);
  });
}

void DistributedModel::load_weights(const HostTensors& tensors) {
  load_weights([&](const std::string& name) {
    const auto found = tensors.find("weight/" + name);
    if (found == tensors.end()) throw InputError(fmt::format("tensor weight/{} is missing", name));
    return found->second;
  });
}

std::vector<StateTensor> DistributedModel::state_of(Rank& rank) {
  Member& member = of(rank);
  std::vector<StateTensor> all;
  const auto add = [&](const char* what, const Parameter& p, int64_t first, const View& local) {
    if (!local.empty())
      all.push_back({fmt::format("{}/{}", what, name_in_state(p, run_)),
                     local.size() == p.view().size() ? local.reshaped(p.view().shape) : local,
                     p.serial_shape, p.global_index(rank), first});
  };
  WeightVersions& weights = *member.weights;
  const int newest = weights.newest();
  const auto add_weights = [&](const char* what, int version) {
    const View block = weights.block(version).view();
    for (Parameter* p : member.model->parameters()) {
      const bool divided = run_.shards(Shard::weights);
      const ParameterSlice own =
          divided ? own_slice(rank, *p) : ParameterSlice{p, 0, p->view().size()};
      const int64_t at = p->offset + own.begin;
      const int64_t before =
          divided ? p->unit->part(rank.groups.shards.rank()).begin - p->unit->part_offset() : 0;
      if (own.count > 0) add(what, *p, own.begin, block.sliced(0, at - before, own.count));
    }
  };
  add_weights("weight", newest);
  if (run_.schedule.delay > 0 && weights.alive(newest - 1))
    add_weights("previous_weight", newest - 1);
  for (const Update::SliceState& kept : member.optimizer->update().state()) {
    add("master", *kept.slice.parameter, kept.slice.begin, kept.master);
    add("moment", *kept.slice.parameter, kept.slice.begin, kept.moment);
    add("second_moment", *kept.slice.parameter, kept.slice.begin, kept.second_moment);
  }
  return all;
}

std::vector<std::string> DistributedModel::save_state(const std::string& folder) {
  check_values();
  std::vector<std::string> files;
  std::mutex guard;
  cluster_.run([&](Rank& rank) {
    const bool first = rank.replica() == 0 && rank.groups.context.rank() == 0;
    if (!first && !(run_.shards(Shard::optimizer) && rank.groups.copies.rank() == 0)) return;
    std::vector<StateTensor> tensors = state_of(rank);
    std::erase_if(tensors, [&](const StateTensor& tensor) {
      const bool weight =
          tensor.name.starts_with("weight/") || tensor.name.starts_with("previous_weight/");
      if (weight && !first && !run_.shards(Shard::weights)) return true;
      return std::ranges::any_of(of(rank).model->parameters(), [&](const Parameter* p) {
        return is_a_copy(*p, run_) && tensor.name.ends_with("/" + p->name);
      });
    });
    const std::string name =
        fmt::format("rank-{:04}.safetensors", cluster_.first_rank() + rank.index);
    write_state((std::filesystem::path(folder) / name).string(), rank.device, tensors);
    const std::lock_guard lock(guard);
    files.push_back(name);
  });
  return files;
}

void DistributedModel::load_state(const StoredState& state, int64_t step) {
  check_values();
  std::mutex guard;  // so that one tensor at a time is whole on the host
  cluster_.run([&](Rank& rank) {
    Member& member = of(rank);
    const bool two = run_.schedule.delay > 0 && step > 0;
    member.weights->resume(rank, static_cast<int>(step), two);
    member.optimizer->update().resume(step);
    for (const StateTensor& tensor : state_of(rank)) {
      const std::lock_guard lock(guard);
      state.read(tensor, rank.device);
    }
  });
  steps_ = static_cast<int>(step);
}

}  // namespace frugal::engine
