#include "engine/model/gpt.h"

#include <utility>

namespace frugal::engine {

namespace {

/// A schedule that ties no tables leaves the first stage the model's own.
bool ties_tables(const Rank& rank, const ModelPart& part) {
  return rank.config.model.tied && (part.first || rank.config.schedule.ties_tables);
}

/// Place of what a layer keeps until its backward pass.
Offloaded::Where place_of(const RunConfig& c, const Gpt::Input& input, size_t layer, bool last) {
  if (!input.target.scale) return Offloaded::Where::nowhere;
  const bool leaves = c.offloads_layer(static_cast<int64_t>(layer)) && !(input.turns && last);
  return leaves ? Offloaded::Where::host : Offloaded::Where::device;
}

/// Copy of the pass for layers that keep all, unless a whole stage is recomputed.
Pass keeping_all(const Pass& pass) {
  Pass all = pass;
  if (all.recompute != Recompute::stage) all.recompute = Recompute::none;
  return all;
}

/// While this lives, a pass has the weights of a module, and those of the next one may be on their
/// way.
class WeightsOf {
 public:
  WeightsOf(const Pass& pass, const ParameterList& now, const ParameterList& next)
      : source_(pass.weights), now_(now) {
    if (source_ != nullptr) source_->begin(pass, now_, next);
  }
  ~WeightsOf() {
    if (source_ != nullptr) source_->end(now_);
  }
  WeightsOf(const WeightsOf&) = delete;
  WeightsOf& operator=(const WeightsOf&) = delete;

 private:
  WeightSource* source_;
  const ParameterList& now_;
};

}  // namespace

Gpt::Gpt(Rank& rank, const ModelPart& part, Gpt* begins) : part_(part) {
  const bool tied = ties_tables(rank, part), one_table = tied && part.ends_meet();
  ParameterStore& store = rank.parameters;
  if (part.first) {
    store.begin_unit();
    embedding_.emplace(rank);
    embedding_->table().tied =
        rank.config.model.tied && rank.config.schedule.ties_tables && !part.ends_meet();
    embedding_->table().looked_up = !one_table;
    table_ = &embedding_->table();
  }
  if (part.last && !part.first && one_table) table_ = &begins->embedding_->table();
  if (part.last && !one_table) {
    store.begin_unit();
    output_table_.emplace(make_token_table(rank, tied ? token_table : output_table));
    output_table_->tied = output_table_->is_copy = tied;
    table_ = &*output_table_;
  }
  layers_.reserve(static_cast<size_t>(part.layers));
  for (int64_t i = 0; i < part.layers; ++i) {
    const int index = static_cast<int>(part.first_layer + i);
    store.begin_unit();
    layers_.emplace_back(RankAt(rank, {index, -1}), index);
  }
  if (part.last) {
    store.begin_unit();
    head_.emplace(rank);
  }
  if (embedding_) modules_.push_back(embedding_->parameters());
  for (TransformerLayer& layer : layers_) modules_.push_back(layer.parameters());
  if (head_) modules_.push_back(needed_by_head());
  if (outer_together(rank.config)) {
    modules_.back() = join({modules_.front(), modules_.back()});
    modules_.front() = modules_.back();
  }
}

bool Gpt::outer_together(const RunConfig& c) const {
  return c.program.weights.outer_stay && c.shards(Shard::weights) && embedding_ && head_;
}

const ParameterList& Gpt::module(size_t i) const {
  static const ParameterList none;
  return i < modules_.size() ? modules_[i] : none;
}

ParameterList Gpt::needed_by_head() { return join({{table_}, head_->parameters()}); }

Tensor Gpt::compute(const Pass& pass, const Input& input, Saved& saved) const {
  if (input.target.scale) {
    pass.event(ModelEvent::forward_begins, saved.extras);
    pass.event(ModelEvent::positions_begin, saved.extras);
  }
  if (part_.first || part_.last) pass.event(ModelEvent::batch_read, saved.extras);
  Tensor x = input.hidden;
  if (!part_.first) pass.event(ModelEvent::input_received, x, saved.extras);
  if (part_.first) {
    const WeightsOf here(pass, module(0), module(1));
    x = embedding_->forward(pass, input.tokens, saved.embedding);
  }
  saved.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerGroup group = group_of(pass, i);
    saved.layers[i].offloaded =
        Offloaded(place_of(pass.rank.config, input, group.first, group.last + 1 == layers_.size()));
    const WeightsOf here(pass, module(module_of_layer(i)), module(module_of_layer(i + 1)));
    TransformerLayer::Saved not_kept;
    const bool kept = group.first == i;
    x = layers_[i].forward(kept ? of_layer(pass, i) : keeping_all(pass), x,
                           kept ? saved.layers[i] : not_kept);
  }
  if (part_.last) {
    const WeightsOf here(pass, modules_.back(), {});
    x = head_->forward(pass, table(), x, input.target, saved.head);
  }
  pass.event(ModelEvent::forward_ends, saved.extras);
  return x;
}

Gpt::LayerGroup Gpt::group_of(const Pass& pass, size_t layer) const {
  const RunConfig& c = pass.rank.config;
  const auto recomputed = [&](size_t i) {
    return i < layers_.size() && c.recomputes_layer(static_cast<int64_t>(i));
  };
  if (pass.recompute != Recompute::full || !recomputed(layer)) return {layer, layer};
  const auto size = static_cast<size_t>(c.recompute_group);
  LayerGroup group{layer - layer % size, layer};
  while (group.last + 1 < group.first + size && recomputed(group.last + 1)) ++group.last;
  return group;
}

Pass Gpt::of_layer(const Pass& pass, size_t layer) {
  return pass.rank.config.recomputes_layer(static_cast<int64_t>(layer)) ? pass : keeping_all(pass);
}

void Gpt::recompute(const Pass& pass, const LayerGroup& group,
                    std::vector<TransformerLayer::Saved>& saved, Extras& extras) const {
  if (group.first == group.last) return;
  Tensor x = std::exchange(saved[group.first].input, Tensor());
  pass.event(ModelEvent::layer_input_recomputed, x, extras);
  for (size_t i = group.first; i < group.last; ++i) {
    const WeightsOf here(pass, modules_[module_of_layer(i)], modules_[module_of_layer(i + 1)]);
    saved[i].offloaded = Offloaded(Offloaded::Where::device);
    x = layers_[i].forward(keeping_all(pass), x, saved[i]);
  }
  saved[group.last].input =
      keep(pass.in_layer(static_cast<int>(part_.first_layer + group.last)), x);
}

Tensor Gpt::forward(const Pass& pass, const Input& input, Saved& saved) const {
  if (pass.recompute != Recompute::stage) return compute(pass, input, saved);
  saved.input = input;
  if (!part_.first) keep(pass, input.hidden);
  Saved not_kept;
  Input without_backward = input;
  without_backward.target.scale.reset();
  return compute(pass, without_backward, not_kept);
}

void Gpt::complete(const Pass& pass, const ParameterList& parameters) {
  if (pass.deferred != nullptr && pass.rank.config.overlaps_sums())
    pass.deferred->push_back([parameters](const Pass& later) { complete(later, parameters); });
  if (pass.on_gradients == nullptr) return;
  if (steps_alone(pass.rank.config))
    step_alone(pass, parameters);  // those that are left
  else
    (*pass.on_gradients)(pass, parameters);
}

Tensor Gpt::backward(const Pass& pass, Tensor dy, float scale, Saved saved) {
  if (pass.recompute == Recompute::stage) compute(pass, saved.input, saved);
  saved.input = {};
  Extras extras = saved.head.layer.extras.until(ModelEvent::backward_ends);
  const auto layer_before = [&](size_t i) -> const ParameterList& {
    return module(i > 0 ? module_of_layer(i - 1) : modules_.size());
  };
  Tensor dx = std::move(dy);
  if (part_.last) {
    {
      const WeightsOf here(pass, modules_.back(), layer_before(layers_.size()));
      dx = head_->backward(pass, table(), own_table(), scale, std::move(saved.head));
    }
    if (!outer_together(pass.rank.config)) complete(pass, head_parameters());
    const bool has_copy = !embedding_ && !output_table_;
    if (has_copy && pass.rank.config.overlaps_sums()) complete(pass, {table_});
  }
  announce_tied_table(pass, ModelEvent::head_table_gradient_made, extras);
  // The head is through: what comes back before would lie beside what the head has.
  const auto fetch = [&](size_t end) {  // what the layers before that one have on the host
    if (end > 0) saved.layers[group_of(pass, end - 1).first].offloaded.fetch(pass);
  };
  fetch(layers_.size());
  for (size_t end = layers_.size(); end > 0;) {
    const LayerGroup group = group_of(pass, end - 1);
    saved.layers[group.first].restore(pass);
    fetch(group.first);
    Extras of_group;
    recompute(pass, group, saved.layers, of_group);
    for (; end > group.first; --end, saved.layers.pop_back()) {
      const size_t i = end - 1;
      {
        const WeightsOf here(pass, modules_[module_of_layer(i)], layer_before(i));
        dx = layers_[i].backward(i == group.last ? of_layer(pass, i) : keeping_all(pass),
                                 std::move(dx), std::move(saved.layers[i]));
      }
      complete(pass, layers_[i].parameters());
    }
    pass.event(ModelEvent::layer_backward_ends, of_group);
  }
  if (part_.first) {
    announce_tied_table(pass, ModelEvent::embedding_gradient_begins, extras);
    embedding_->backward(pass, dx, std::move(saved.embedding));
    if (pass.weights != nullptr) pass.weights->end_all();
    complete(pass, outer_together(pass.rank.config)
                       ? join({embedding_->parameters(), head_parameters()})
                       : embedding_->parameters());
    dx.release();
  }
  for (Extras* held : {&extras, &saved.extras}) pass.event(ModelEvent::backward_ends, *held);
  return dx;
}

void Gpt::announce_tied_table(const Pass& pass, ModelEvent event, Extras& extras) const {
  if (!embedding_ || !part_.last || output_table_) return;
  Tensor weight = table().weight;
  pass.event(event, weight, extras);
}

/// Excludes a table that the embedding adds to later.
ParameterList Gpt::head_parameters() { return join({head_->parameters(), own_table()}); }

ParameterList Gpt::own_table() {
  return output_table_ ? ParameterList{&*output_table_} : ParameterList();
}

ParameterList Gpt::parameters() {
  ParameterList all;
  if (embedding_) all = embedding_->parameters();
  if (output_table_) all.push_back(&*output_table_);
  for (TransformerLayer& layer : layers_) all = join({all, layer.parameters()});
  return head_ ? join({all, head_->parameters()}) : all;
}

std::vector<ParameterList> Gpt::completed() {
  std::vector<ParameterList> all;
  if (part_.last) all = {{table_}, head_->parameters()};
  for (size_t i = layers_.size(); i-- > 0;) all.push_back(layers_[i].parameters());
  if (embedding_) all.push_back(embedding_->parameters());
  return all;
}

ParameterList Gpt::trained() {
  const bool other = part_.last && !embedding_ && !output_table_;
  return other ? join({{table_}, parameters()}) : parameters();
}

}  // namespace frugal::engine
