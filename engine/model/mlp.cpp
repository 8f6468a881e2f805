#include "engine/model/mlp.h"

#include <algorithm>

#include "engine/model/dropout.h"
#include "engine/model/mini_sequence.h"

namespace frugal::engine {
namespace {

/// Dropout of the part of a hidden state [s/t, b, h] that begins with row `begin`.
Dropout dropout_from(const Pass& pass, int layer, int64_t begin) {
  const RunConfig& c = pass.rank.config;
  Dropout dropout = randomness::of_hidden(pass, randomness::Site::mlp_output, layer);
  dropout.index.offset += begin * c.micro_batch * c.model.hidden;
  return dropout;
}

Gate gate_of(const ModelConfig& m) { return m.mlp == MlpKind::swiglu ? Gate::silu : Gate::gelu; }

ColumnParallelLinear::Size up_size(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const bool gated = is_gated(m.mlp);
  return {.in = m.hidden,
          .out = (gated ? 2 : 1) * m.intermediate_size(),
          .bias = m.bias == BiasKind::all,
          .sharding = gated ? Sharding::row_halves : Sharding::rows,
          .pieces = gated && c.program.mlp.separate_projections ? Pieces{1, 1} : Pieces{}};
}

/// Parts of so many tokens, which are computed one after the other.
std::vector<MiniSequence> parts_of(const RunConfig& c, int64_t tokens) {
  const int64_t parts = c.mlp_mini_sequences(), each = c.model.hidden;
  const bool fixed = c.program.mlp.parts_of_hidden_size && c.mlp_chunks == RunConfig::by_rule &&
                     tokens == c.group_sequence() && (parts - 1) * each < tokens;
  std::vector<MiniSequence> all;
  for (int64_t i = 0; i < parts; ++i)
    all.push_back(fixed ? MiniSequence{i * each, std::min(each, tokens - i * each)}
                        : mini_sequence(tokens, parts, i));
  return all;
}

}  // namespace

Mlp::Mlp(const RankAt& at, const std::string& name, int layer)
    : layer_(layer),
      up_(at, name + ".up", up_size(at.rank.config), Initial::weight()),
      down_(at, name + ".down",
            {.in = at.rank.config.model.intermediate_size(),
             .out = at.rank.config.model.hidden,
             .bias = at.rank.config.model.bias == BiasKind::all},
            Initial::residual_weight(at.rank.config.model)) {}

Mlp::Inner Mlp::expand(const Pass& pass, const Tensor& x) const {
  Inner inner;
  if (!is_gated(pass.rank.config.model.mlp)) {
    inner.z = up_.forward_gelu(pass, x, inner.u);
    return inner;
  }
  inner.u = up_.forward(pass, x);
  activate(pass, inner);
  return inner;
}

void Mlp::activate(const Pass& pass, Inner& inner) {
  const RunConfig& c = pass.rank.config;
  const bool gated = is_gated(c.model.mlp);
  Shape shape = inner.u.shape();
  if (gated) shape.extent[2] /= 2;
  inner.z = pass.allocate(shape);
  const View u = inner.u.view().matrix(), z = inner.z.view().matrix();
  if (!gated) {
    pass.run(Gelu{u, z});
    return;
  }
  pass.run(GatedUnit{u, z, gate_of(c.model)});
  pass.event(ModelEvent::gate_activated, inner.z, inner.extras);
}

void Mlp::make_up_again(const Pass& pass, const Tensor& x, Inner& inner) const {
  Shape shape = inner.gate.shape();
  const int64_t columns = shape.extent[2];
  shape.extent[2] *= 2;
  inner.u = pass.allocate(inner.gate.type(), shape, up_.pieces());
  const View u = inner.u.view().matrix();
  pass.run(Copy{inner.gate.view().matrix(), u.sliced(1, 0, columns)});
  inner.gate.release();
  up_.forward_columns(pass, x, columns, u.sliced(1, columns, columns));
}

Mlp::Inner Mlp::kept(const Pass& pass, const Inner& inner) {
  Inner kept;
  if (pass.recomputes(LayerModule::up)) {
    const View gate = inner.u.view().sliced(2, 0, inner.u.shape()[2] / 2);
    kept.gate = pass.allocate(inner.u.type(), gate.shape);
    pass.run(Copy{inner.u.view().matrix().sliced(1, 0, gate.cols()), kept.gate.view().matrix()});
    keep(pass, kept.gate);
  } else {
    kept.u = keep(pass, inner.u);
  }
  if (pass.recomputes(LayerModule::activation)) return kept;
  kept.z = keep(pass, inner.z);
  kept.extras = inner.extras;
  for (const Tensor* tensor : kept.extras.tensors()) keep(pass, *tensor);
  return kept;
}

Mlp::Saved Mlp::remembered(const Pass& outer, const Tensor& x) {
  const Pass pass = outer.in(Part::mlp);
  Saved saved;
  if (!pass.recomputes(LayerModule::norm)) saved.input = keep(pass, x);
  return saved;
}

Mlp::Saved Mlp::recompute(const Pass& outer, const Tensor& x) const {
  const Pass pass = outer.in(Part::mlp);
  Saved saved = remembered(pass, x);
  for (const MiniSequence& part : parts_of(pass.rank.config, x.shape()[0]))
    if (keeps_inner(pass)) saved.inner.push_back(kept(pass, expand(pass, part.of(x))));
  return saved;
}

Tensor Mlp::forward(const Pass& outer, const Tensor& x, const Tensor& residual,
                    Saved& saved) const {
  const Pass pass = outer.in(Part::mlp);
  saved = remembered(pass, x);
  Tensor y;  // [s/t, b, h]
  for (const MiniSequence& part : parts_of(pass.rank.config, x.shape()[0])) {
    Inner inner = expand(pass, part.of(x));
    if (keeps_inner(pass)) saved.inner.push_back(kept(pass, inner));
    Tensor projected = down_.forward(pass, inner.z);  // [rows, b, h]
    pass.event(ModelEvent::mlp_part_ends, projected, saved.results);
    inner = {};
    const Dropout dropout = dropout_from(pass, layer_, part.begin);
    if (y.empty()) {
      saved.mask = keep(pass, mask_for(pass, x.shape(), dropout));
      y = pass.allocate(x.shape());
    }
    add_dropped(pass, projected, down_.bias(), part.of(residual), part.of(saved.mask), part.of(y),
                dropout);
  }
  pass.event(ModelEvent::mlp_ends, saved.results);
  return y;
}

Tensor Mlp::backward(const Pass& pass, Tensor dprojected, const Rematerialized& x, Inner inner,
                     const Tensor& into) {
  const bool gated = is_gated(pass.rank.config.model.mlp);
  Tensor dz = down_.backward(pass, dprojected, inner.z, gated ? View() : inner.u.view());
  dprojected.release();
  if (pass.rank.config.mlp_mini_sequences() == 1) step_alone(pass, down_.parameters());
  if (!gated) {
    inner = {};
    return up_.backward(pass, dz, x(), into);
  }
  inner.z.release();
  const View u = inner.u.view().matrix();
  pass.event(ModelEvent::gate_gradient_begins, dz, inner.extras);
  pass.run(GatedUnitBackward{u, dz.view().matrix(), u, gate_of(pass.rank.config.model)});
  dz.release();
  pass.event(ModelEvent::gate_gradient_ends, inner.extras);
  return up_.backward(pass, inner.u, x(), into);
}

Tensor Mlp::backward(const Pass& outer, const Tensor& dy, Saved saved,
                     const Rematerialized& input) {
  const Pass pass = outer.in(Part::mlp);
  const std::vector<MiniSequence> parts = parts_of(pass.rank.config, dy.shape()[0]);
  const bool whole = parts.size() == 1;
  const bool concatenates = !whole && pass.rank.config.program.mlp.concatenated_parts;
  Tensor dx = whole || concatenates ? Tensor() : pass.allocate(dy.shape());
  std::vector<Tensor> gradients;  // of parts; of a program that has them until all are there
  const Tensor up_sum = whole ? Tensor() : up_.memory_beside_sum(pass);
  const Tensor down_sum = whole ? Tensor() : down_.memory_beside_sum(pass);
  for (size_t i = 0; i < parts.size(); ++i) {
    const MiniSequence& part = parts[i];
    const auto x = [&] {
      if (saved.input.empty()) saved.input = input();
      return part.of(saved.input);
    };
    Inner inner = keeps_inner(pass) ? std::move(saved.inner[i]) : expand(pass, x());
    if (inner.u.empty()) make_up_again(pass, x(), inner);
    if (inner.z.empty()) activate(pass, inner);
    Tensor dprojected =
        undo_dropped(pass, part.of(dy), part.of(saved.mask), down_.bias_to_sum(pass),
                     dropout_from(pass, layer_, part.begin));
    if (i + 1 == parts.size()) pass.event(ModelEvent::mlp_mask_read, saved.mask);
    Tensor part_dx = backward(pass, std::move(dprojected), x, std::move(inner), part.of(dx));
    if (whole)
      dx = std::move(part_dx);
    else if (concatenates)
      gradients.push_back(std::move(part_dx));
  }
  if (concatenates) {
    dx = pass.allocate(dy.shape());
    for (size_t i = 0; i < parts.size(); ++i)
      pass.run(Copy{gradients[i].view().matrix(), parts[i].of(dx).view().matrix()});
  }
  step_alone(pass, parameters());
  return dx;
}

}  // namespace frugal::engine
