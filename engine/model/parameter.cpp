#include "engine/model/parameter.h"

#include <numeric>
#include <utility>

#include "engine/model/dropout.h"

namespace frugal::engine {
namespace {

/// FNV-1a of the name: a weight's random stream does not depend on which other weights exist.
uint32_t site_of(const std::string& name) {
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

Shape local_shape(const Shape& serial, Sharding sharding, int t) {
  Shape local = serial;
  if (sharding == Sharding::rows) local.extent[0] /= t;
  if (sharding == Sharding::row_halves) local.extent[0] /= t;
  if (sharding == Sharding::columns) local.extent[static_cast<size_t>(serial.dims - 1)] /= t;
  return local;
}

}  // namespace

bool has_float32_parts(const RunConfig& config) {
  return config.program.weights.float32_parts && config.shards(Shard::weights) &&
         config.has_masters();
}

ParameterStore::Types types_of(const RunConfig& c) {
  const bool units = c.shards(Shard::optimizer);
  const bool unkept = c.gradients_come_and_go() || c.reduces_in_backward();
  return {c.type,
          unkept ? std::nullopt : std::optional(c.gradient_type()),
          c.overwrite_gradients && !units,
          c.program.weights.separate,
          c.shard_ranks(),
          c.shards(Shard::weights),
          has_float32_parts(c)};
}

Parameter::Parameter(const RankAt& at, std::string name_, const Shape& serial, Sharding sharding_,
                     Initial initial)
    : name(std::move(name_)), sharding(sharding_), serial_shape(serial) {
  const Shape local = local_shape(serial, sharding, at.rank.tensor_group.size());
  if (at.rank.parameters.counting()) {
    at.rank.parameters.add(local);
    return;
  }
  ParameterStore::Memory memory =
      at.rank.parameters.take(at.rank.ledger, types_of(at.rank.config), local, at.place);
  weight = std::move(memory.weight);
  gradient = std::move(memory.gradient);
  offset = memory.offset;
  unit = std::move(memory.unit);
  if (unit) unit->layer = at.place.layer;
  if (initial.deviation > 0) {
    at.run(RandomNormal{weight,
                        initial.deviation,
                        {at.rank.config.seed, site_of(name), randomness::initial_draw},
                        global_index(at.rank)});
  } else {
    at.run(Fill{weight, initial.constant});
  }
  if (unit && at.rank.config.shards(Shard::weights))
    keep_part(at, at.rank.parameters.weight_block());
  if (gradient.empty()) return;
  // A module alone, which no optimizer steps, adds to its gradients again and again.
  fresh = at.rank.config.overwrite_gradients && offset >= 0 && local.dims > 1;
  if (!fresh) at.run(Fill{gradient, 0});
}

void Parameter::keep_part(const RankAt& at, const Tensor& block) {
  const ParameterUnit::Stretch part = unit->part(at.rank.groups.shards.rank());
  const ParameterUnit::Stretch own = part.shared_with(stretch());
  if (own.count > 0) {
    at.run(Copy{weight.view().flat().sliced(0, own.begin - offset, own.count),
                block.view().sliced(0, unit->part_offset() + own.begin - part.begin, own.count)});
  }
  unbind();
}

void Parameter::bind(const Tensor& block, int64_t first) {
  const Shape shape = weight.shape();
  weight = block.with_view(block.view().sliced(0, offset - first, shape.size()).reshaped(shape));
}

void Parameter::unbind() { weight = Tensor().with_view({nullptr, weight.type(), weight.shape()}); }

const Tensor& gradients_of(const RankAt& at, ParameterUnit& unit) {
  if (!unit.gradients.empty()) return unit.gradients;
  unit.gradients =
      at.allocate(at.rank.config.gradient_type(), {unit.elements}, Kind::communication);
  for (const ParameterUnit::Stretch& gap : unit.gaps)
    at.run(Fill{unit.gradients.view().sliced(0, gap.begin - unit.offset, gap.count), 0});
  return unit.gradients;
}

void Parameter::take_gradient(const RankAt& at) const {
  if (!gradient.empty()) return;
  if (unit && at.rank.config.program.weights.copied_unit_gradients) {
    gradient = at.allocate(at.rank.config.gradient_type(), weight.shape(), Kind::communication);
  } else if (unit) {
    const Tensor& all = gradients_of(at, *unit);
    gradient = all.with_view(
        all.view().sliced(0, offset - unit->offset, weight.view().size()).reshaped(weight.shape()));
  } else {
    gradient = at.allocate(at.rank.config.gradient_type(), weight.shape(), pieces, Kind::gradient);
  }
  fresh = true;
}

const View& Parameter::grad(const RankAt& at) const {
  take_gradient(at);
  if (std::exchange(fresh, false)) at.run(Fill{gradient, 0});
  return gradient.view();
}

GradientSum Parameter::product_sum(const RankAt& at) const {
  if (!at.rank.config.overwrite_gradients) return {grad(at), true};
  take_gradient(at);
  return {gradient.view(), !std::exchange(fresh, false)};
}

Tensor Parameter::memory_beside_sum(const RankAt& at) const {
  if (gradient.empty() || !at.rank.config.program.weights.separate_terms) return {};
  return at.allocate(weight.type(), weight.shape(), pieces);
}

Tensor Parameter::piece_beside_sum(const RankAt& at) const {
  if (pieces.empty()) return memory_beside_sum(at);
  const int64_t whole = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  Tensor last;
  if (gradient.empty() || !at.rank.config.program.weights.separate_terms) return last;
  for (const int64_t piece : pieces) {
    last.release();
    last = at.allocate(weight.type(), {weight.view().size() / whole * piece});
  }
  return last;
}

GlobalIndex Parameter::global_index(const Rank& rank) const {
  const int r = rank.tensor_group.rank();
  const View& w = weight.view();
  switch (sharding) {
    case Sharding::rows:
      return {.offset = r * w.size()};
    case Sharding::columns:
      return {
          .offset = r * w.cols(), .run = w.cols(), .stride = serial_shape[serial_shape.dims - 1]};
    case Sharding::row_halves:
      return {.offset = r * (w.size() / 2), .run = w.size() / 2, .stride = serial_shape.size() / 2};
    case Sharding::replicated:
      break;
  }
  return {};
}

Pieces pieces_of(const RunConfig& config, const ParameterList& parameters) {
  if (parameters.size() == 1) return parameters.front()->pieces;
  Pieces sizes;
  if (config.program.weights.separate)
    for (const Parameter* p : parameters) sizes.push_back(p->view().size());
  return sizes;
}

Pieces pieces_in(const ParameterUnit& unit, const ParameterList& parameters) {
  Pieces sizes;
  for (const Parameter* p : parameters) {
    if (p->unit.get() != &unit) continue;
    const Pieces pieces = p->pieces.empty() ? Pieces{1} : p->pieces;
    const int64_t whole = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
    for (const int64_t piece : pieces) sizes.push_back(p->view().size() / whole * piece);
  }
  return sizes;
}

ParameterList join(std::initializer_list<ParameterList> lists) {
  ParameterList all;
  for (const ParameterList& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

ParameterList with_optional(Parameter& one, std::optional<Parameter>& other) {
  return other ? ParameterList{&one, &*other} : ParameterList{&one};
}

bool steps_alone(const RunConfig& config) {
  return config.step_in_backward && config.program.weights.step_one_by_one;
}

void step_alone(const Pass& pass, ParameterList parameters) {
  if (pass.on_gradients == nullptr || !steps_alone(pass.rank.config)) return;
  std::erase_if(parameters, [](const Parameter* p) { return p->gradient.empty(); });
  (*pass.on_gradients)(pass, parameters);
}

}  // namespace frugal::engine
