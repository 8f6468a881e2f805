#include <algorithm>

#include "engine/model/table_names.h"
#include "engine/optimizer/optimizer.h"

// Which elements a rank steps, in groups of those that lie behind each other and are treated alike.
namespace frugal::engine {
namespace {

/// The whole model's norm has a replicated weight once.
bool is_counted(const Rank& rank, const Parameter& p) {
  return !p.is_copy && (p.sharding != Sharding::replicated || rank.tensor_group.rank() == 0);
}

/// Whether this element of the block follows that one, but for what lies between parameters.
bool follows(int64_t end, int64_t begin) { return begin == ParameterStore::padded(end); }

}  // namespace

bool Optimizer::is_forgotten(const Rank& rank, const Parameter& p) {
  const RunConfig& c = rank.config;
  return c.program.keeps.unstepped_head && c.step_in_backward && c.head_mini_sequences() > 1 &&
         p.name == output_table;
}

Optimizer::Slice Optimizer::slice_of(const Rank& rank, Parameter& p) {
  if (!p.unit) return {&p, 0, p.view().size()};
  const ParameterUnit::Stretch own =
      p.unit->part(rank.groups.shards.rank()).shared_with(p.stretch());
  return {&p, own.begin - p.offset, own.count};
}

ParameterList Optimizer::Group::members() const {
  ParameterList all;
  for (const Slice& slice : slices) all.push_back(slice.parameter);
  return all;
}

bool Optimizer::Group::goes_on_with(const RankAt& at, const Slice& slice, bool is_counted) const {
  const Parameter& p = *slice.parameter;
  return offset >= 0 && p.offset >= 0 && p.unit.get() == unit() &&
         follows(offset + elements, p.offset + slice.begin) && is_counted == counted && !p.tied &&
         !tied && (unit() != nullptr || !at.rank.config.gradients_come_and_go());
}

void Optimizer::Group::add(const Slice& slice) {
  const Parameter& p = *slice.parameter;
  if (slices.empty() && p.offset >= 0) offset = p.offset + slice.begin;
  elements = ParameterStore::padded(elements) + slice.count;
  slices.push_back(slice);
}

void Optimizer::make_groups(Rank& rank, const Tensor& weights) {
  for (Parameter* p : parameters_) {
    const Slice slice = slice_of(rank, *p);
    if (slice.count == 0) continue;
    const bool counted = is_counted(rank, *p);
    if (groups_.empty() || !groups_.back().goes_on_with(rank, slice, counted))
      groups_.push_back({.counted = counted, .tied = p->tied});
    groups_.back().add(slice);
  }
  for (Group& group : groups_) {
    if (!rank.config.program.keeps.late_state) make_state(rank, group, weights);
    if (rank.config.program.keeps.narrow_gradients && rank.config.type != rank.config.state_type())
      group.narrow_gradient =
          RankAt(rank).allocate(rank.config.type, {group.elements},
                                pieces_of(rank.config, group.members()), Kind::gradient);
  }
}

View Optimizer::in_part(const Group& group, const View& part, bool of_all) const {
  const ParameterUnit& unit = *group.unit();
  const int64_t first = of_all ? unit.part_offset() : 0;
  return part.sliced(0, first + group.offset - unit.part(part_).begin, group.elements);
}

View Optimizer::gradient_of(const Group& group) const {
  if (!gradients_.empty()) return in_part(group, gradients_, true);
  if (const ParameterUnit* unit = group.unit(); unit != nullptr && !gradients_of(*unit).empty())
    return in_part(group, gradients_of(*unit), false);
  const Slice& first = group.slices.front();
  const View& own = first.parameter->gradient.view();
  const View flat = {own.data, own.type, {first.begin + group.elements}};
  return flat.sliced(0, first.begin, group.elements);
}

View Optimizer::weights_of(const Group& group, const Tensor& block) const {
  const View& own = group.first().weight.view();
  if (block.empty() || group.offset < 0) return {own.data, own.type, {group.elements}};
  if (parts_of_weights_) return in_part(group, block, true);
  return block.view().sliced(0, group.offset, group.elements);
}

OptimizerState Optimizer::new_state(Rank& rank, const Group& group, const Tensor& weights) const {
  const RunConfig& c = rank.config;
  const int moments = kind_ == OptimizerKind::sgd ? 0 : kind_ == OptimizerKind::momentum ? 1 : 2;
  return {rank, weights_of(group, weights), moments, has_masters(c), pieces_of(c, group.members())};
}

void Optimizer::make_state(Rank& rank, Group& group, const Tensor& weights) const {
  if (group.state.empty() && !is_forgotten(rank, group.first()))
    group.state = new_state(rank, group, weights);
}

std::vector<Optimizer::Kept> Optimizer::kept() const {
  std::vector<Kept> all;
  for (const Group& group : groups_)
    for (const Slice& slice : group.slices) {
      const Parameter& p = *slice.parameter;
      const int64_t first =
          &slice == &group.slices.front() ? 0 : p.offset + slice.begin - group.offset;
      const auto part = [&](const Tensor& state) {
        return state.empty() ? View() : state.view().sliced(0, first, slice.count);
      };
      all.push_back({slice, part(group.state.master()), part(group.state.moment()),
                     part(group.state.second_moment())});
    }
  return all;
}

}  // namespace frugal::engine
