#include "engine/model/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/model/dropout.h"
#include "engine/model/parallel.h"

namespace frugal::engine {
namespace {

template <class A>
void upload(Device& device, const Tensor& to, const std::vector<double>& values) {
  const std::vector<A> narrow(values.begin(), values.end());
  device.copy_from_host(to, narrow.data());
}

/// Angles by which the pairs of a head turn from one position to the next: [d/2]. Su et al. 2021
/// (arXiv:2104.09864), equation 15. With bands, as Llama 3.1 has them: frequencies of less than
/// `low` turns within the original length are divided by the factor, those of more than `high` are
/// not, and those between are mixed in proportion to their turns.
std::vector<double> rotary_frequencies(const RotaryConfig& config, int64_t head_size) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const double plain =
        std::pow(config.base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    const double turns = plain * static_cast<double>(config.original) / (2 * std::numbers::pi);
    // How much of the frequency stays as it is.
    const double kept =
        config.bands ? std::clamp((turns - config.low) / (config.high - config.low), 0.0, 1.0) : 0;
    frequencies.push_back(plain * (kept + (1 - kept) / config.factor));
  }
  return frequencies;
}

/// True if keys are made again, and queries and values are not.
bool makes_keys_again(const Pass& pass) {
  return pass.recomputes(LayerModule::keys) && !pass.recomputes(LayerModule::projection);
}

}  // namespace

RotaryPositions::RotaryPositions(const RankAt& at) {
  const ModelConfig& m = at.rank.config.model;
  if (m.positions != PositionKind::rotary) return;
  frequencies_ =
      at.allocate(accumulation_type(at.rank.config.type), {m.head_size() / 2}, Kind::statistics);
  if (!at.rank.device.backed()) return;
  const std::vector<double> values = rotary_frequencies(m.rotary, m.head_size());
  if (frequencies_.type() == DType::f64)
    upload<double>(at.rank.device, frequencies_, values);
  else
    upload<float>(at.rank.device, frequencies_, values);
}

void RotaryPositions::apply(const Pass& pass, const View& qkv, bool inverse) const {
  if (frequencies_.empty()) return;
  const HeadViews views(pass.rank.config.model);
  for (const Positions::Piece& piece : parallel::group_positions(pass.rank))
    pass.run(Rotary{.x = views.queries_and_keys(piece.of(qkv)),
                    .frequencies = frequencies_,
                    .first = piece.first,
                    .inverse = inverse});
}

void RotaryPositions::apply_to_keys(const Pass& pass, const View& qkv) const {
  if (frequencies_.empty()) return;
  const HeadViews views(pass.rank.config.model);
  for (const Positions::Piece& piece : parallel::group_positions(pass.rank))
    pass.run(Rotary{.x = views.keys_of_positions(piece.of(qkv)),
                    .frequencies = frequencies_,
                    .first = piece.first,
                    .inverse = false});
}

Attention::Attention(const RankAt& at, const std::string& name, int layer)
    : layer_(layer),
      qkv_(at, name + ".qkv",
           {.in = at.rank.config.model.hidden,
            .out = at.rank.config.model.qkv_size(),
            .bias = at.rank.config.model.bias != BiasKind::none,
            .pieces = pieces_of_qkv(at.rank.config)},
           Initial::weight()),
      positions_(at),
      core_(AttentionCore::make(at.rank.config, layer)),
      projection_(at, name + ".projection",
                  {.in = at.rank.config.model.query_size(),
                   .out = at.rank.config.model.hidden,
                   .bias = at.rank.config.model.bias == BiasKind::all},
                  Initial::residual_weight(at.rank.config.model)) {}

Tensor Attention::forward(const Pass& outer, const Tensor& x, const Tensor& residual,
                          Saved& saved) const {
  const Pass pass = outer.in(Part::attention);
  if (!pass.recomputes(LayerModule::norm)) saved.input = keep(pass, x);
  AttentionCore::Saved core;
  core.qkv = qkv_for_core(pass, x);
  Tensor context = core_->forward(pass, core);
  const bool context_again = pass.recomputes(LayerModule::core_attention) && core_->needs_context();
  if (!context_again) saved.context = keep(pass, context);
  saved.core = core.kept(pass);
  if (makes_keys_again(pass) && !core.qkv.empty()) keep_without_keys(pass, core.qkv, saved);
  core = {};
  return output(pass, std::move(context), residual, saved);
}

Tensor Attention::output(const Pass& pass, Tensor context, const Tensor& residual,
                         Saved& saved) const {
  const Tensor projected = projection_.forward(pass, context);
  context.release();
  const Dropout dropout = randomness::of_hidden(pass, randomness::Site::attention_output, layer_);
  if (saved.mask.empty()) saved.mask = keep(pass, mask_for(pass, projected.shape(), dropout));
  Tensor y = pass.allocate(projected.shape());
  add_dropped(pass, projected, projection_.bias(), residual, saved.mask, y, dropout);
  return y;
}

Tensor Attention::output_again(const Pass& outer, const Tensor& residual, Saved& saved,
                               const Rematerialized& input) const {
  const Pass pass = outer.in(Part::attention);
  if (saved.context.empty()) make_core_again(pass, input, saved);
  return output(pass, saved.context, residual, saved);
}

void Attention::keep_without_keys(const Pass& pass, const Tensor& qkv, Saved& saved) {
  const HeadViews views(pass.rank.config.model);
  const auto kept = [&](const View& heads) {
    Tensor some = pass.allocate({qkv.shape()[0], qkv.shape()[1], heads.size() / qkv.view().rows()});
    pass.run(Copy{heads, some.view().reshaped(heads.shape)});
    return keep(pass, some);
  };
  saved.queries = kept(views.side_by_side_queries(qkv));
  saved.values = kept(views.side_by_side_values(qkv));
}

Tensor Attention::with_keys(const Pass& pass, const Tensor& x, Saved& saved) const {
  const HeadViews views(pass.rank.config.model);
  const int64_t d = views.head_size(), heads = views.heads_per_group();
  const Tensor keys = qkv_.forward_every(pass, x, heads * d, d, (heads + 2) * d);
  const Shape like = saved.queries.shape();
  const Tensor qkv = pass.allocate(
      saved.queries.type(), {like[0], like[1], like[2] / heads * (heads + 2)}, qkv_.pieces());
  const auto put = [&](const Tensor& some, const View& to) {
    pass.run(Copy{some.view().reshaped(to.shape), to});
  };
  put(saved.queries, views.side_by_side_queries(qkv));
  put(keys, views.side_by_side_keys(qkv));
  put(saved.values, views.side_by_side_values(qkv));
  saved.queries.release();
  saved.values.release();
  positions_.apply_to_keys(pass, qkv);
  return core_->arranged(pass, qkv);
}

Tensor Attention::qkv_for_core(const Pass& pass, const Tensor& x) const {
  Tensor qkv = qkv_.forward(pass, x);
  positions_.apply(pass, qkv, false);
  return core_->arranged(pass, std::move(qkv));
}

void Attention::make_core_again(const Pass& pass, const Rematerialized& input, Saved& saved) const {
  if (pass.recomputes(LayerModule::projection) && saved.core.qkv.empty())
    saved.core.qkv = qkv_for_core(pass, input());
  if (!saved.queries.empty()) saved.core.qkv = with_keys(pass, input(), saved);
  const bool is_there = core_->needs_context() && !saved.context.empty();
  if (!pass.recomputes(LayerModule::core_attention) || is_there) return;
  Tensor context = core_->forward(pass, saved.core);
  if (core_->needs_context()) saved.context = std::move(context);
}

Tensor Attention::backward(const Pass& outer, const Tensor& dy, Saved saved,
                           const Rematerialized& input) {
  const Pass pass = outer.in(Part::attention);
  const auto x = [&] {
    if (saved.input.empty()) saved.input = input();
    return saved.input;
  };
  Tensor dprojected =
      undo_dropped(pass, dy, saved.mask, projection_.bias_to_sum(pass),
                   randomness::of_hidden(pass, randomness::Site::attention_output, layer_));
  pass.event(ModelEvent::attention_mask_read, saved.mask);
  const bool context_again = saved.context.empty();
  if (context_again) make_core_again(pass, x, saved);
  Tensor dcontext = projection_.backward(pass, dprojected, saved.context);
  pass.event(ModelEvent::projection_gradient_read, dprojected);
  step_alone(pass, projection_.parameters());
  if (!core_->needs_context()) saved.context.release();
  if (!context_again) make_core_again(pass, x, saved);
  const Tensor dqkv =
      core_->backward(pass, std::move(dcontext), std::move(saved.context), std::move(saved.core));
  positions_.apply(pass, dqkv, true);
  Tensor dx = qkv_.backward(pass, dqkv, x());
  step_alone(pass, qkv_.parameters());
  return dx;
}

}  // namespace frugal::engine
