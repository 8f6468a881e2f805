#include "engine/program/behaviour.h"

#include <algorithm>

#include "engine/rank.h"

namespace frugal::engine {
namespace effects {
namespace {

using Event = ModelEvent;

std::string_view wide_logits(const RunConfig& config) {
  return config.narrow_logits ? "and narrow logits are on, which leave nothing to copy" : "";
}
std::string_view fused_attention(const RunConfig& config) {
  return config.attention == AttentionKind::separate || config.context_parallel > 1
             ? "and attention is not one fused operation of a whole sequence"
             : "";
}
std::string_view whole_gradients(const RunConfig& config) {
  return config.shards(Shard::optimizer) ? "and replicas divide gradients" : "";
}
std::string_view whole_weights(const RunConfig& config) {
  return config.shards(Shard::weights) ? "and replicas divide weights" : "";
}
/// Each pass gives a rank's parts their gradients, or there is nothing to be divided.
std::string_view gradients_in_backward(const RunConfig& config) {
  return config.shards(Shard::optimizer) && !config.reduces_in_backward()
             ? "and replicas divide gradients behind the last pass, of which each keeps all"
             : "";
}
/// Each replica has all weights, or a part of each.
std::string_view parts_of_each(const RunConfig& config) {
  return config.shards(Shard::weights) ? "" : whole_gradients(config);
}
std::string_view layers_step_together(const RunConfig& config) {
  return config.step_in_backward ? whole_gradients(config) : "";
}
std::string_view one_stage(const RunConfig& config) {
  if (!config.shards(Shard::weights)) return "";
  if (config.pipeline_parallel > 1) return "and the model is divided among stages of a pipeline";
  return config.schedule.flushes ? "" : "and the schedule has several versions of the weights";
}
std::string_view state_on_device(const RunConfig& config) {
  return config.offload_optimizer ? "and the optimizer's state is in the host's memory" : "";
}

// Conditions of effects.

bool has(const RankAt& at, std::string_view behaviour) {
  return at.rank.config.program.has(behaviour);
}
bool with_float32_loss(const RankAt& at) { return has(at, "float32-loss"); }
bool without_float32_loss(const RankAt& at) { return !with_float32_loss(at); }
bool with_wide_logits(const RankAt& at) {
  return with_float32_loss(at) || has(at, "float32-logits");
}
bool without_wide_logits(const RankAt& at) { return !with_wide_logits(at); }
bool makes_rms_norms_again(const RankAt& at) {
  const RunConfig& c = at.rank.config;
  return c.model.norm == NormKind::rms && c.recompute == Recompute::selective &&
         at.place.layer >= 0 && c.recompute_modules.has(LayerModule::norm) &&
         c.recomputes_layer(at.place.layer);
}
/// A layer that makes its norms again keeps nothing else of them than others do.
bool keeps_rms_norms(const RankAt& at) {
  return at.rank.config.model.norm == NormKind::rms && !makes_rms_norms_again(at) &&
         (at.place.layer >= 0 || !has(at, "float32-final-norm"));
}
bool is_final_rms_norm(const RankAt& at) {
  return at.rank.config.model.norm == NormKind::rms && at.place.layer < 0;
}
bool recomputes_parts(const RankAt& at) {
  return at.rank.config.recompute == Recompute::selective &&
         at.rank.config.recomputes_layer(at.place.layer);
}
bool is_rotary(const RankAt& at) { return at.rank.config.model.positions == PositionKind::rotary; }
bool masks_scores(const RankAt& at) {
  const RunConfig& c = at.rank.config;
  return c.model.causal && c.attention == AttentionKind::separate && !has(at, "causal-masks");
}
bool takes_flash_attention(const RankAt& at) {
  return has(at, "flash-attention") ||
         kernels::takes_flash_attention(at.rank.device.libraries().compute_capability,
                                        has(at, "deterministic-algorithms"));
}
bool predicts_masked(const RankAt& at) {
  return at.rank.config.model.objective == Objective::masked_token;
}
bool recomputes_layers(const RankAt& at) { return at.rank.config.recompute == Recompute::full; }
bool computes_layers_once(const RankAt& at) { return !recomputes_layers(at); }
bool gradients_stay(const RankAt& at) {
  return !at.rank.config.gradients_come_and_go() && !at.rank.config.reduces_in_backward();
}

// Effects that one behaviour has.

/// Holds a tensor of zeros that counts as kept for the backward pass.
void hold_zeros(const Occasion& o, DType type, const Shape& shape) {
  const Tensor zeros = o.at.allocate(type, shape);
  zeros.labelled(Kind::activation, o.at.place);
  o.at.run(Fill{zeros, 0});
  o.extras.hold(zeros, o.until);
}

/// Makes a causal mask, [s, s] u8.
void make_mask(const Occasion& o) {
  const int64_t s = o.at.rank.config.model.sequence;
  hold_zeros(o, DType::u8, {s, s});
}

/// Makes memory that a library works in. What it holds is never read.
void hold_workspace(const Occasion& o, int64_t bytes) {
  if (bytes > 0) o.extras.hold(o.at.allocate(DType::u8, {bytes}), o.until);
}

/// Makes those of PyTorch's two handles of cuBLAS, of forward and backward passes.
void make_cublas_workspaces(const Occasion& o) {
  constexpr int64_t deterministic = int64_t{8} * 4096 * 1024;  // CUBLAS_WORKSPACE_CONFIG=:4096:8
  for (int i = 0; i < 2; ++i)
    hold_workspace(o, has(o.at, "deterministic-algorithms")
                          ? deterministic
                          : o.at.rank.device.libraries().cublas_workspace);
}

void make_transformer_engine_workspace(const Occasion& o) {
  hold_workspace(o, o.at.rank.device.libraries().transformer_engine_workspace);
}

/// Bytes that blocks of PyTorch's allocator have more than tensors.
void make_rests_of_blocks(const Occasion& o) {
  hold_workspace(o, int64_t{7} << 20);  // fitted: programs/megatron-core.json
}

/// Makes memory of attention's scores of a layer: [b · heads, s, s].
void make_score_buffer(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  const int64_t heads = c.model.heads / c.tensor_parallel;
  o.extras.hold(o.at.allocate(c.type, {c.micro_batch * heads, c.model.sequence, c.model.sequence}),
                o.until);
}

/// Makes a mask for each sequence of a microbatch, [b, s/c, s] u8, which comes from the host.
void make_batch_masks(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  const Tensor masks =
      o.at.allocate(DType::u8, {c.micro_batch, c.group_sequence(), c.model.sequence});
  masks.labelled(Kind::activation, o.at.place);
  o.at.run(Transfer{masks.view(), masks.view()});
  o.extras.hold(masks, o.until);
}

/// Makes inputs of the output layer and gradients of its logits of all microbatches but the last,
/// [s/t, b, h] and [s, b, v/t].
void make_deferred_head(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  for (int64_t i = 1; i < c.microbatches; ++i) {
    o.extras.hold(o.at.allocate({c.local_sequence(), c.micro_batch, c.model.hidden}), o.until);
    o.extras.hold(
        o.at.allocate({c.group_sequence(), c.micro_batch, c.model.vocabulary / c.tensor_parallel}),
        o.until);
  }
}

/// Makes weights, their gradients, and a replica's part of Adam's state.
void hold_parameters(const Occasion& o, int64_t elements) {
  const RunConfig& c = o.at.rank.config;
  const DType wide = accumulation_type(c.type);
  const auto hold = [&](DType type, int64_t size, Kind kind) {
    o.extras.hold(o.at.allocate(type, {size}, kind), o.until);
  };
  hold(c.type, elements, Kind::parameter);
  hold(c.program.weights.narrow_sums ? c.type : wide, elements, Kind::gradient);
  const int64_t part = elements / (c.shards(Shard::optimizer) ? c.shard_ranks() : 1);
  for (int i = c.type == wide ? 1 : 0; i < 3; ++i) hold(wide, part, Kind::optimizer);
}

/// Makes a linear layer and a norm of the hidden size, and a bias of the vocabulary.
void make_token_head(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  const int64_t h = c.model.hidden;
  hold_parameters(o, h * h + 3 * h + c.model.vocabulary / c.tensor_parallel);
}

/// Makes what that layer, its GELU and its norm give, [s/t, b, h] each.
void make_token_head_results(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  const Shape shape{c.local_sequence(), c.micro_batch, c.model.hidden};
  for (int i = 0; i < 3; ++i) o.extras.hold(o.at.allocate(shape, Kind::activation), o.until);
}

/// Makes a linear layer of the hidden size, and one of two outputs.
void make_sentence_head(const Occasion& o) {
  const int64_t h = o.at.rank.config.model.hidden;
  hold_parameters(o, h * h + 3 * h + 2);
}

/// Makes float32 sums of the queries' gradient, one, or as many as let a GPU's multiprocessors each
/// have heads to themselves. Those beyond one are filled and read beside the kernels whose rate is
/// known.
void make_flash_sums(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  int64_t sums = 1;
  if (has(o.at, "deterministic-algorithms")) {
    const int64_t heads = c.micro_batch * c.model.heads / c.tensor_parallel;
    sums = (o.at.rank.device.libraries().multiprocessors + heads - 1) / heads;
  }
  for (int64_t i = 0; i < sums; ++i)
    o.extras.hold(o.at.allocate(accumulation_type(o.x.type()), o.x.shape()), o.until);
  const int64_t more = (sums - 1) * o.x.view().size() * size_of(accumulation_type(o.x.type()));
  const View moved{nullptr, DType::u8, {more}};  // a copy writes and reads as many
  if (more > 0) o.at.run(Copy{moved, moved});
}

/// Makes cosines and sines, [s, d] each.
void make_rotary_tables(const Occasion& o) {
  const RunConfig& c = o.at.rank.config;
  for (int i = 0; i < 2; ++i) hold_zeros(o, c.type, {c.model.sequence, c.model.head_size()});
}

/// Copies a norm's input to accumulation type, and keeps the norm's result before its gain.
void widen_norm(const Occasion& o) {
  const DType narrow = o.x.type();
  const Tensor wide = o.at.converted(o.x, accumulation_type(narrow));
  Tensor normal = o.at.copied(o.at.copied(wide), narrow);
  normal.labelled(Kind::activation, o.at.place);
  o.extras.hold(std::move(normal), o.until);
  o.x = wide;
}

/// Makes the products of PyTorch's autograd for a norm's gradient, in their order: of the gain, and
/// in float32 of the input with the deviation and of its square. The gradient goes from one to the
/// next, and is found in the last of them; float32 loses nothing of it. The input is narrow again.
void narrow_norm(const Occasion& o) {
  Tensor &dy = o.x, &input = *o.other;
  const DType narrow = dy.type(), wide = input.type();
  Tensor dgain = o.at.copied(dy), dnormal = o.at.copied(dy);
  dy.release();
  dgain.release();
  o.extras.end(o.until);
  Tensor dproduct = o.at.converted(dnormal, wide);
  dnormal.release();
  Tensor dinput = o.at.copied(dproduct), ddeviation = o.at.copied(dproduct);
  dproduct.release();
  ddeviation.release();
  Tensor dsquare = o.at.copied(input), power = o.at.copied(input);
  Tensor twice = o.at.copied(power), product = o.at.copied(twice);
  for (Tensor* done : {&dsquare, &power, &twice, &product}) done->release();
  dy = o.at.converted(dinput, narrow);
  dinput.release();
  input = o.at.converted(input, narrow);
}

/// Scales the gradients of queries and of keys, which are tensors of their own, and copies all
/// three into one.
void scale_and_join(const Occasion& o) {
  const int64_t heads = o.at.rank.config.model.queries_per_group();
  const int64_t keys = o.x.view().size() / (heads + 2);
  for (const int64_t elements : {heads * keys, keys}) {
    const Tensor scaled = o.at.allocate(o.x.type(), {elements});
    o.at.run(Copy{o.x.view().flat().sliced(0, 0, elements), scaled});
  }
  o.x = o.at.copied(o.x);
}

/// Copies a moment into memory that counts as the optimizer's, twice where weights step in
/// backward.
void copy_moment(const Occasion& o) {
  for (int i = 0; i < (o.at.rank.config.step_in_backward ? 2 : 1); ++i) {
    const Tensor memory = o.x.as_much_of(o.at.rank.ledger, Kind::optimizer, o.at.place);
    o.at.run(Copy{o.x, memory.at(0, o.x)});
    o.extras.hold(memory, o.until);
  }
}

// Choices.

template <auto member>
constexpr Choice run = [](Choices& c) { c.*member = true; };
template <auto member>
constexpr Choice attention = [](Choices& c) { c.attention.*member = true; };
template <auto member>
constexpr Choice mlp = [](Choices& c) { c.mlp.*member = true; };
template <auto member>
constexpr Choice head = [](Choices& c) { c.head.*member = true; };
template <auto member>
constexpr Choice weights = [](Choices& c) { c.weights.*member = true; };
template <auto member>
constexpr Choice optimizer = [](Choices& c) { c.optimizer.*member = true; };
template <auto member>
constexpr Choice device = [](Choices& c) { c.device.*member = true; };
constexpr Choice separate_projections = [](Choices& c) {
  c.attention.separate_projections = c.mlp.separate_projections = true;
};

constexpr Choice expandable_segments = [](Choices& c) {
  c.device.caching_allocator = c.device.expandable_segments = true;
};

Behaviour keeping(std::string_view name, std::string_view does, std::vector<Effect> effects,
                  Refusal refusal = nullptr, Choice choice = nullptr) {
  return {name, Changes::memory, does, std::move(effects), choice, refusal};
}
Behaviour choosing(std::string_view name, std::string_view does, Choice choice,
                   Refusal refusal = nullptr, bool real = true) {
  return {name, Changes::memory, does, {}, choice, refusal, real};
}
/// Behaviours of the output layer and the loss.
std::vector<Behaviour> of_logits() {
  return {
      keeping("float32-logits",
              "Logits are computed in the weights' type and copied to float32, which "
              "the model returns",
              {widen(Event::logits_made, Event::logits_kept),
               only(without_float32_loss,
                    copies_beside(Event::loss_gradient_converted, Event::loss_gradient_ends))},
              wide_logits, head<&HeadChoices::narrow_product>),
      keeping("float32-loss",
              "The loss copies logits of the weights' type to float32, and their "
              "gradient the other way",
              {widen(Event::logits_made, Event::logits_kept),
               copies_beside(Event::loss_gradient_converted, Event::loss_gradient_ends)},
              wide_logits, head<&HeadChoices::narrow_product>),
      keeping("copied-logits",
              "Logits are computed in the weights' type, and the loss has a copy in float32, which "
              "its gradient takes the place of",
              {widen(Event::logits_made, Event::logits_kept)}, wide_logits,
              head<&HeadChoices::narrow_product>),
      keeping("log-probabilities",
              "The loss keeps a log-probability for each logit, and makes their "
              "gradient before that of the logits",
              {copy(Event::loss_begins, Event::logits_kept),
               only(with_wide_logits,
                    copies_beside(Event::loss_gradient_begins, Event::loss_gradient_converted)),
               only(without_wide_logits,
                    copies_beside(Event::loss_gradient_begins, Event::loss_gradient_ends)),
               elsewhere(Event::loss_gradient_placed)},
              wide_logits, head<&HeadChoices::narrow_product>),
      keeping("unkept-statistics",
              "The loss keeps no sums of exponentials, which log-probabilities make superfluous",
              {release(Event::loss_made)}),
      keeping(
          "returned-logits",
          "Whoever calls the model keeps the logits that it returns until the backward pass ends",
          {only(with_float32_loss,
                hold(Event::logits_converted, Event::backward_ends, Counted::activation)),
           only(without_float32_loss,
                hold(Event::logits_returned, Event::backward_ends, Counted::activation))},
          wide_logits),
      keeping(
          "separate-softcap", "A soft cap of logits keeps the tangent that it computes",
          {copies_beside(Event::logits_capped, Event::head_backward_ends, 1, Counted::activation)}),
      keeping("float32-head-parts",
              "A part of the output head copies its logits to float32, and has their "
              "probabilities beside them",
              {copies_beside(Event::part_logits_made, Event::part_gradient_ends)}, wide_logits,
              head<&HeadChoices::narrow_part_product>),
      choosing("narrow-part-sums",
               "Parts of the output head sum the gradient of its weights in the weights' type",
               head<&HeadChoices::narrow_part_sums>),
      choosing("separate-part-gradients",
               "Parts of the output head give gradients of their own; each is put into a tensor of "
               "the whole length, and these are added up",
               head<&HeadChoices::separate_part_gradients>)};
}

/// Float32 norms of a layer. Where they are made again, their kernels' bytes are those of
/// operations without a fused kernel, for each of x in 2 bytes: 18 forward, of which a fused kernel
/// has 2, and 46 backward, of which it has 3.
std::vector<Effect> float32_norms() {
  const Event begins = Event::layer_backward_begins, ends = Event::layer_backward_ends;
  constexpr double forward = 18 - 2, backward = 46 - 3;
  return {only(keeps_rms_norms, {Event::norm_read, Event::norm_gradient_begins, widen_norm}),
          only(keeps_rms_norms,
               {Event::norm_gradient_begins, Event::norm_gradient_begins, narrow_norm}),
          only(makes_rms_norms_again, kernel(Event::layer_ends, 2 * forward, 14)),
          only(makes_rms_norms_again, kernel(begins, 2 * (forward + backward), 40)),
          only(makes_rms_norms_again, wide_memory_beside(begins, ends, 2)),
          only(makes_rms_norms_again, memory_beside(begins, ends, 2))};
}

/// Behaviours of layers.
std::vector<Behaviour> of_layers() {
  return {
      keeping("float32-norms",
              "A root mean square norm copies its input to float32 and keeps that, and what it "
              "gives before its gain, from where they are made to its backward pass",
              float32_norms()),
      keeping("float32-final-norm",
              "The root mean square norm behind the layers copies its input to float32 and keeps "
              "that, and what it gives before its gain",
              {only(is_final_rms_norm, {Event::norm_read, Event::norm_gradient_begins, widen_norm}),
               only(is_final_rms_norm,
                    {Event::norm_gradient_begins, Event::norm_gradient_begins, narrow_norm})}),
      choosing(
          "dropout-masks",
          "Dropout keeps a mask of one byte for each element; that within fused attention does not",
          run<&Choices::keeps_dropout_masks>),
      keeping("separate-activation",
              "An activation function keeps its input and its result; a gate's is multiplied in an "
              "operation of its own, whose two gradients are tensors",
              {copies_beside(Event::gate_activated, Event::gate_gradient_ends),
               copies_beside(Event::gate_gradient_begins, Event::gate_gradient_ends, 2)}),
      choosing("parts-until-layer-ends",
               "Mini-sequences of an MLP keep what they compute until the layer's backward pass, "
               "all parts together",
               mlp<&MlpChoices::parts_stay>),
      choosing("parts-of-hidden-size",
               "Mini-sequences of an MLP by the paper's rule have as many tokens as its hidden "
               "size, but for the last, in place of equal parts",
               mlp<&MlpChoices::parts_of_hidden_size>, nullptr, false),
      keeping("concatenated-parts",
              "What mini-sequences of an MLP give are tensors of their own until all "
              "are there, and are copied into one",
              {hold(Event::mlp_part_ends, Event::mlp_ends)}, nullptr,
              mlp<&MlpChoices::concatenated_parts>),
      keeping("mlp-results",
              "A layer of which parts are computed again keeps what its MLP gives, before the "
              "residual",
              {only(recomputes_parts,
                    hold(Event::mlp_part_ends, Event::layer_backward_ends, Counted::activation))}),
      choosing("discarded-at-once",
               "The first forward pass of a layer that is computed again gives back what each "
               "operation has read, and not all when the layer ends",
               run<&Choices::discards_at_once>),
      keeping("recomputed-inputs",
              "A layer that is computed again keeps its input until its backward pass ends",
              {hold(Event::layer_input_recomputed, Event::layer_backward_ends)}),
      keeping("recomputed-outputs",
              "A layer that is computed again keeps its output until its backward pass ends",
              {hold(Event::layer_output_recomputed, Event::layer_backward_ends)}),
      choosing("early-stop",
               "What is computed again of a layer ends with what its backward pass needs: without "
               "dropout, not with the MLP's last product",
               mlp<&MlpChoices::stops_early>),
      choosing("kept-outputs",
               "A stage keeps what it has sent until the microbatch's backward pass has been made",
               run<&Choices::keeps_stage_outputs>)};
}

/// Behaviours of attention.
std::vector<Behaviour> of_attention() {
  return {
      choosing("separate-projections",
               "Queries, keys and values are tensors of their own, and so are a gate and what it "
               "is multiplied with; their weights' gradients and optimizer state, too",
               separate_projections, nullptr, false),
      keeping("attention-workspace",
              "Fused attention's backward pass sums the queries' gradient in float32, and has "
              "gradients of keys and values for each head of queries",
              {wide_memory_beside(Event::attention_gradient_begins, Event::attention_gradient_ends),
               memory_beside(Event::grouped_gradient_begins, Event::attention_gradient_ends, 2)}),
      choosing(
          "padded-data",
          "Nearly all of a sequence is padding, which fused attention neither computes nor keeps",
          attention<&AttentionChoices::padded_data>, fused_attention, false),
      keeping("separate-scores",
              "Attention's products of queries and keys, their softmax, and the gradients of both "
              "are tensors of their own",
              {elsewhere(Event::scores_placed)}),
      keeping("copied-heads",
              "Attention's result is copied from the order of heads, and the gradients of queries, "
              "keys and values are tensors of their own, of which the first two are scaled, before "
              "they are one",
              {copy(Event::context_made, Event::context_made),
               {Event::joined_gradient_made, Event::joined_gradient_made, scale_and_join}}),
      keeping("score-mask",
              "A pass of a causal model whose attention computes scores keeps one mask of a byte "
              "for each pair of positions",
              {only(masks_scores, {Event::forward_begins, Event::backward_ends, make_mask})}),
      choosing("joined-gradients",
               "Gradients of queries, keys and values are tensors of their own, which are copied "
               "into one",
               attention<&AttentionChoices::joined_gradients>),
      keeping("early-releases",
              "A backward pass gives back the gradient of a layer's output, and those within "
              "attention, as soon as they have been read",
              {release(Event::layer_gradient_read), release(Event::attention_mask_read),
               release(Event::projection_gradient_read), release(Event::context_gradient_read),
               release(Event::attention_inputs_read), release(Event::mlp_mask_read)}),
      keeping(
          "rotary-tables", "A pass keeps cosines and sines of all positions, in the weights' type",
          {only(is_rotary, {Event::positions_begin, Event::backward_ends, make_rotary_tables})}),
      keeping("causal-masks",
              "Each microbatch in flight keeps a mask of one byte for each pair of positions",
              {{Event::forward_begins, Event::backward_ends, make_mask}})};
}

/// Behaviours of weights, gradients and steps.
std::vector<Behaviour> of_steps() {
  return {
      choosing("gradients-when-needed",
               "A weight's gradient takes memory from the backward pass that computes it to the "
               "end of the step",
               weights<&WeightChoices::gradients_come_and_go>, gradients_in_backward),
      choosing("narrow-gradients",
               "Gradients are there in the weights' type, too, beside their float32 sums",
               optimizer<&OptimizerChoices::narrow_gradients>, whole_gradients),
      choosing("separate-weight-gradients",
               "What is added to a weight's gradient is a tensor of its own, in the weights' type",
               weights<&WeightChoices::separate_terms>),
      choosing("separate-parameters",
               "Each weight, its gradient and each part of its optimizer state is a tensor of its "
               "own, which an allocator rounds",
               weights<&WeightChoices::separate>, parts_of_each, false),
      keeping(
          "tied-sums",
          "What both uses add to the gradient of a tied table, and the sum of the two, are tensors "
          "of their own; the first waits for the second",
          {only(gradients_stay,
                memory_beside(Event::head_table_gradient_made, Event::backward_ends)),
           memory_beside(Event::embedding_gradient_begins, Event::backward_ends)}),
      choosing("stepped-one-by-one",
               "A weight that steps in backward does so when its own gradient is complete, not "
               "with its layer's",
               weights<&WeightChoices::step_one_by_one>, layers_step_together),
      choosing("flattened-gradients",
               "A step copies all gradients, in the weights' type, into one tensor before replicas "
               "sum them",
               optimizer<&OptimizerChoices::flattened_gradients>, whole_gradients),
      keeping("optimizer-intermediate",
              "The optimizer's step makes one more tensor as large as the weights that it steps "
              "together, or two where it steps them in backward",
              {{Event::moment_read, Event::moments_stepped, copy_moment}}, state_on_device),
      choosing("unstepped-head",
               "The table of an output head in parts, stepped in backward, is never stepped: its "
               "gradient stays, and it has no state",
               optimizer<&OptimizerChoices::forgets_head>, whole_gradients, false),
      choosing("late-state",
               "The optimizer's state is made where the first step needs it, out of what passes "
               "have given back",
               optimizer<&OptimizerChoices::late_state>, nullptr, false),
      choosing("float32-weight-versions", "Older versions of the weights are kept in float32",
               weights<&WeightChoices::float32_versions>, whole_weights),
      timing("caching-allocator",
             "Memory comes from PyTorch's caching allocator, which rounds, keeps and fragments; on "
             "a virtual machine",
             device<&DeviceRules::caching_allocator>, Changes::memory, "expandable-segments"),
      timing("expandable-segments",
             "The same allocator, whose segments grow at their ends (expandable_segments:True)",
             expandable_segments, Changes::memory, "caching-allocator"),
      timing("communicator-buffers",
             "A communicator of all devices leaves less memory for everything else; on a virtual "
             "machine that says how much",
             device<&DeviceRules::communicator_buffers>, Changes::memory)};
}

/// A behaviour that keeps something in a described GPU's memory.
Behaviour on_gpu(std::string_view name, std::string_view does, std::vector<Effect> effects,
                 Choice choice = nullptr) {
  return {name, Changes::memory, does, std::move(effects), choice, nullptr, false};
}

/// Behaviours of libraries, and of those who call them, on a GPU.
std::vector<Behaviour> of_libraries() {
  return {
      on_gpu("cublas-workspaces",
             "PyTorch gives cuBLAS memory to work in, for forward and for backward passes; on a "
             "virtual machine that says how much",
             {{Event::model_made, Event::model_goes, make_cublas_workspaces}}),
      on_gpu("transformer-engine-workspace",
             "TransformerEngine has memory for its products to work in; on a virtual machine that "
             "says how much",
             {{Event::model_made, Event::model_goes, make_transformer_engine_workspace}}),
      on_gpu("deterministic-algorithms",
             "Results are the same each time: cuBLAS has 8 x 4 MiB to work in, attention on "
             "Blackwell is FlashAttention, and its gradient has several float32 sums",
             {}),
      on_gpu("flash-attention", "TransformerEngine takes FlashAttention on every GPU", {},
             [](Choices& c) { c.device.attention.kernels = {"flash-attention-2"}; }),
      on_gpu("flash-attention-copies",
             "Where TransformerEngine takes FlashAttention, its result is copied to the order of "
             "the sequence, and both stay; its gradient is copied back, and the queries' is summed "
             "in float32",
             {only(takes_flash_attention,
                   copies_beside(Event::fused_context_made, Event::attention_gradient_ends, 1,
                                 Counted::activation)),
              only(takes_flash_attention, {Event::attention_gradient_begins,
                                           Event::attention_gradient_ends, make_flash_sums}),
              only(takes_flash_attention,
                   copies_beside(Event::attention_gradient_begins, Event::attention_gradient_ends)),
              only(takes_flash_attention, memory_beside(Event::grouped_gradient_begins,
                                                        Event::attention_gradient_ends, 2))}),
      on_gpu("rests-of-blocks",
             "PyTorch's allocator does not split off up to 1 MiB of a block, which counts as "
             "allocated: 7 MiB in all",
             {{Event::model_made, Event::model_goes, make_rests_of_blocks}})};
}

/// Behaviours of Megatron-Core beside those of its libraries.
std::vector<Behaviour> of_megatron() {
  return {
      on_gpu("score-buffer",
             "Attention has memory of its scores' size, which stays, to give products an operand "
             "that they do not read",
             {{Event::model_made, Event::model_goes, make_score_buffer}}),
      on_gpu("wide-probabilities", "Separate attention keeps its softmax in float32", {},
             attention<&AttentionChoices::wide_probabilities>),
      on_gpu(
          "batch-masks",
          "The first and the last stage read a mask of one byte for each pair of positions of "
          "each sequence, which is there in the forward pass, and longer where layers are "
          "computed again from their arguments",
          {only(computes_layers_once, {Event::batch_read, Event::forward_ends, make_batch_masks}),
           only(recomputes_layers, {Event::batch_read, Event::backward_ends, make_batch_masks})}),
      on_gpu("inputs-until-next",
             "The input of a microbatch's stage stays from its backward pass to the end of the "
             "next forward pass",
             {memory_beside(Event::input_received, Event::forward_ends)}),
      on_gpu("deferred-head-gradients",
             "The gradient of the output layer's weights is computed behind the last microbatch, "
             "from inputs and gradients that all microbatches leave",
             {{Event::head_made, Event::model_goes, make_deferred_head}}),
      on_gpu(
          "token-head",
          "A masked-token model has a linear layer, GELU and a norm before its vocabulary, and a "
          "bias behind it, which take memory and no time",
          {only(predicts_masked, {Event::head_made, Event::model_goes, make_token_head}),
           only(predicts_masked,
                {Event::logits_converted, Event::head_backward_ends, make_token_head_results})}),
      on_gpu("sentence-head",
             "A masked-token model has a second head, which tells whether sentences follow each "
             "other, and takes memory and no time",
             {only(predicts_masked, {Event::head_made, Event::model_goes, make_sentence_head})}),
      on_gpu("narrow-sums",
             "Gradients are summed in the weights' type, and in float32 for the optimizer's step",
             {memory_beside(Event::moment_read, Event::moments_stepped)},
             weights<&WeightChoices::narrow_sums>)};
}

/// Behaviours of replicas that divide weights.
std::vector<Behaviour> of_divided() {
  return {
      choosing("outer-weights-stay",
               "Divided weights outside the layers are gathered together and stay whole until the "
               "microbatch's backward pass ends, where their gradients are summed together",
               weights<&WeightChoices::outer_stay>, one_stage),
      choosing(
          "layer-weights-stay",
          "Divided weights of a layer stay whole from its forward pass to the end of its backward "
          "pass, and the buffer that the last layer's were gathered in until the forward pass ends",
          weights<&WeightChoices::layers_stay>, one_stage),
      choosing("last-layer-weights-stay",
               "Divided weights of the last layer stay whole from its forward to its backward pass",
               weights<&WeightChoices::last_layer_stays>, one_stage),
      choosing("copied-unit-weights",
               "Divided weights are copied out of the buffer that they are gathered in, which in a "
               "forward pass stays until the next ones have come",
               weights<&WeightChoices::copied_units>),
      choosing("float32-parts",
               "Of divided weights a replica has its part in float32 alone, and makes one in the "
               "weights' type each time that they are gathered",
               weights<&WeightChoices::float32_parts>, nullptr, false),
      choosing("copied-unit-gradients",
               "Gradients that replicas sum in the backward pass are tensors of their own, which "
               "are copied into one when those of a layer are there; a sum has no memory of its "
               "own where it is added to another",
               weights<&WeightChoices::copied_unit_gradients>)};
}

}  // namespace
}  // namespace effects

const std::vector<Behaviour>& behaviours() {
  static const std::vector<Behaviour> all = [] {
    using namespace effects;
    std::vector<Behaviour> list;
    for (const auto& some : {of_logits(), of_layers(), of_attention(), of_steps(), of_sums(),
                             of_libraries(), of_megatron(), of_divided(), of_kernels(), of_hosts()})
      list.insert(list.end(), some.begin(), some.end());
    return list;
  }();
  return all;
}

}  // namespace frugal::engine
