#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "engine/train/trainer.h"

namespace frugal::engine {
namespace {

/// A table that the last stage has of its own may differ from the first's.
std::string name_in_state(const Parameter& p, const RunConfig& run) {
  return p.is_copy && !run.schedule.ties_tables ? p.name + ".last" : p.name;
}

bool is_a_copy(const Parameter& p, const RunConfig& run) {
  return p.is_copy && run.schedule.ties_tables;
}

}  // namespace

std::string Trainer::state_file(int rank) { return fmt::format("rank-{:04}.safetensors", rank); }

std::vector<StateTensor> Trainer::state_of(Rank& rank) {
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

std::vector<std::string> Trainer::save_state(const std::string& folder) {
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
    const std::string name = state_file(cluster_.first_rank() + rank.index);
    write_state((std::filesystem::path(folder) / name).string(), rank.device, tensors);
    const std::lock_guard lock(guard);
    files.push_back(name);
  });
  return files;
}

void Trainer::load_state(const StoredState& state, int64_t step) {
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
