#include "engine/model/layer.h"

#include <utility>

namespace frugal::engine {
namespace {

std::string prefix(int index) { return "layers." + std::to_string(index); }

/// block + residual, in the block's place.
Tensor add(const Pass& pass, Tensor block, const Tensor& residual) {
  const View y = block.view().matrix();
  pass.run(BiasDropoutAdd{.x = y, .residual = residual.view().matrix(), .y = y, .dropout = {}});
  return block;
}

}  // namespace

KeptTensors TransformerLayer::Saved::kept() {
  KeptTensors all{{LayerModule::input, &input}};
  for (Norm::Saved* norm : {&attention_norm, &attention_post_norm, &mlp_norm, &mlp_post_norm})
    norm->add_to(all);
  attention.add_to(all);
  mlp.add_to(all);
  return all;
}

TransformerLayer::TransformerLayer(const RankAt& at, int index)
    : index_(index),
      attention_norm_(at, prefix(index) + ".attention_norm"),
      attention_(at, prefix(index) + ".attention", index),
      mlp_norm_(at, prefix(index) + ".mlp_norm"),
      mlp_(at, prefix(index) + ".mlp", index) {
  if (!at.rank.config.model.post_norms) return;
  attention_post_norm_.emplace(at, prefix(index) + ".attention_post_norm");
  mlp_post_norm_.emplace(at, prefix(index) + ".mlp_post_norm");
}

TransformerLayer::Middle TransformerLayer::attend(const Pass& pass, const Tensor& x,
                                                  Saved& saved) const {
  Tensor normed = attention_norm_.forward(pass, x, saved.attention_norm);
  Middle middle;
  if (attention_post_norm_) {
    const Tensor block = attention_.forward(pass, normed, {}, saved.attention);
    middle.residual =
        add(pass, attention_post_norm_->forward(pass, block, saved.attention_post_norm), x);
  } else {
    middle.residual = attention_.forward(pass, normed, x, saved.attention);
  }
  normed.release();
  middle.normed = mlp_norm_.forward(pass, middle.residual, saved.mlp_norm,
                                    !pass.recomputes(LayerModule::attention_output));
  return middle;
}

Tensor TransformerLayer::compute(const Pass& pass, const Tensor& x, Saved& saved) const {
  const Middle middle = attend(pass, x, saved);
  if (!mlp_post_norm_) return mlp_.forward(pass, middle.normed, middle.residual, saved.mlp);
  const Tensor block = mlp_.forward(pass, middle.normed, {}, saved.mlp);
  return add(pass, mlp_post_norm_->forward(pass, block, saved.mlp_post_norm), middle.residual);
}

Tensor TransformerLayer::recompute(const Pass& pass, const Tensor& x, Saved& saved) const {
  const RunConfig& c = pass.rank.config;
  const bool later = Mlp::recomputes_itself(pass);
  // A mask of dropout behind the last product is kept, and made with its result.
  const bool early = c.program.mlp.stops_early && c.model.dropout == 0;
  if (mlp_post_norm_ || !(later || early)) return compute(pass, x, saved);
  const Tensor normed = attend(pass, x, saved).normed;
  saved.mlp = later ? Mlp::remembered(pass, normed) : mlp_.recompute(pass, normed);
  return {};
}

Tensor TransformerLayer::forward(const Pass& outer, const Tensor& x, Saved& saved) const {
  const Pass pass = outer.in_layer(index_);
  if (pass.recompute != Recompute::full) {
    Tensor y = compute(pass, x, saved);
    if (pass.rank.config.offload) saved.offloaded.store(pass, saved.kept());
    pass.event(ModelEvent::layer_ends, y);
    return y;
  }
  saved.input = x;
  saved.offloaded.store(pass, saved.kept());
  Saved not_kept;
  Pass first = pass;
  first.discards = pass.rank.config.program.discards_at_once;
  Tensor y = compute(first, x, not_kept);
  pass.event(ModelEvent::layer_ends, y);
  return y;
}

Tensor TransformerLayer::backward(const Pass& outer, Tensor dy, Saved saved) {
  const Pass pass = outer.in_layer(index_);
  Extras extras;
  pass.event(ModelEvent::layer_backward_begins, dy, extras);
  saved.restore(pass);
  if (pass.recompute == Recompute::full) {
    Tensor input = std::exchange(saved.input, Tensor()), output = recompute(pass, input, saved);
    pass.event(ModelEvent::layer_ends, input);
    pass.event(ModelEvent::layer_input_recomputed, input, extras);
    pass.event(ModelEvent::layer_output_recomputed, output, extras);
  }
  const auto normed_again = [&] { return attention_norm_.again(pass, saved.attention_norm); };
  if (pass.recomputes(LayerModule::attention_output))
    saved.mlp_norm.input = attention_.output_again(
        pass, pass.converted(saved.attention_norm.input, pass.rank.config.type), saved.attention,
        normed_again);
  Tensor d =
      mlp_post_norm_ ? mlp_post_norm_->backward(pass, dy, {}, std::move(saved.mlp_post_norm)) : dy;
  d = mlp_.backward(pass, d, std::move(saved.mlp),
                    [&] { return mlp_norm_.again(pass, saved.mlp_norm); });
  const Tensor dmiddle = mlp_norm_.backward(pass, std::move(d), dy, std::move(saved.mlp_norm));
  step_alone(pass, mlp_norm_.parameters());
  pass.event(ModelEvent::layer_gradient_read, dy);
  d = attention_post_norm_
          ? attention_post_norm_->backward(pass, dmiddle, {}, std::move(saved.attention_post_norm))
          : dmiddle;
  d = attention_.backward(pass, d, std::move(saved.attention), normed_again);
  d = attention_norm_.backward(pass, std::move(d), dmiddle, std::move(saved.attention_norm));
  pass.event(ModelEvent::layer_backward_ends, extras);
  return d;
}

ParameterList TransformerLayer::parameters() {
  ParameterList all = join({attention_norm_.parameters(), attention_.parameters()});
  if (attention_post_norm_) all = join({all, attention_post_norm_->parameters()});
  all = join({all, mlp_norm_.parameters(), mlp_.parameters()});
  return mlp_post_norm_ ? join({all, mlp_post_norm_->parameters()}) : all;
}

}  // namespace frugal::engine
