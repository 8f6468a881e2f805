#pragma once
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"
#include "kernels/virtual/device_rules.h"

namespace frugal::engine {

struct Behaviour;

/// Events of passes and steps, which modules announce (RankAt::event) with the tensor that they are
/// about. Imitated programs hold, copy and release tensors there (engine/effect.h).
enum class ModelEvent : uint8_t {
  model_made,                 ///< all parts of the model that a rank has
  head_made,                  ///< the same, where the output layer is among them
  model_goes,                 ///< the same
  batch_read,                 ///< tokens or labels, by the part of the model that needs them
  input_received,             ///< what another stage has sent to a part of the model
  forward_ends,               ///< of a part of the model
  forward_begins,             ///< of a part of the model that has a backward pass
  positions_begin,            ///< the same, where positions are needed
  backward_ends,              ///< of the same
  layer_input_recomputed,     ///< a layer's input has been read by its second forward pass
  layer_output_recomputed,    ///< a layer's output of its second forward pass
  layer_ends,                 ///< a layer's output, by a forward pass
  layer_backward_begins,      ///< the gradient of a layer's output, by none of its modules
  layer_gradient_read,        ///< the same, by all of them
  layer_backward_ends,        ///< of one layer, or of layers that are recomputed together
  norm_read,                  ///< a norm's input, before it is kept
  norm_gradient_begins,       ///< the gradient of a norm's output; beside it the norm's input
  attention_mask_read,        ///< attention's dropout mask, in the backward pass
  mlp_mask_read,              ///< the dropout mask of an MLP, in the backward pass
  projection_gradient_read,   ///< the gradient of attention's projected context
  scores_placed,              ///< a softmax is about to write where its other side is
  context_made,               ///< by separate attention, in the order of heads
  context_gradient_read,      ///< the gradient of attention's context
  fused_context_made,         ///< by fused attention
  attention_gradient_begins,  ///< of fused attention: its context
  grouped_gradient_begins,    ///< the same where heads of queries share keys and values
  attention_gradient_ends,    ///< of fused attention
  attention_inputs_read,      ///< a tensor that fused attention has read for its gradient
  joined_gradient_made,       ///< of queries, keys and values, in one tensor
  gate_activated,             ///< what a gate's activation gives
  gate_gradient_begins,       ///< the gradient of a gated product
  gate_gradient_ends,         ///< the gradients of a gate and of its factor are made
  mlp_part_ends,              ///< a mini-sequence's projection
  mlp_ends,                   ///< all mini-sequences have gone through an MLP
  logits_capped,              ///< soft-capped logits
  logits_made,                ///< logits as the product gives them
  logits_converted,           ///< the same, once logits_made has had its effects
  logits_returned,            ///< logits as the model gives them to its caller
  loss_begins,                ///< logits that the loss reads
  logits_kept,                ///< the loss's logits are kept for the backward pass
  loss_made,                  ///< what the loss keeps beside its logits
  loss_gradient_begins,       ///< logits that the loss's gradient is made of
  loss_gradient_converted,    ///< the same, once loss_gradient_begins has had its effects
  loss_gradient_placed,       ///< the gradient is about to take its logits' place
  loss_gradient_ends,         ///< the gradient of the logits is made
  part_logits_made,           ///< logits of a part of the output head
  part_gradient_ends,         ///< the gradients of a part of the output head are made
  head_backward_ends,         ///< of the output layer
  head_table_gradient_made,   ///< of a table that the embedding uses, too: its weight
  embedding_gradient_begins,  ///< the same table, before the embedding adds to its gradient
  unit_gathered,              ///< whole weights of a unit that replicas divide
  unit_gradients_complete,    ///< the gradients of such a unit, before replicas sum them
  version_used,               ///< the block of weights of another version than the one before
  weight_stepped,             ///< a weight, by a step of several versions
  moment_read,                ///< an optimizer's second moment, before it is stepped
  moments_stepped,            ///< all that are stepped together
  count_
};

/// Choices of how a module is built and run where an imitated program's differ in more than the
/// life of a tensor. By default all are frugal's own.
struct AttentionChoices {
  bool separate_projections = false;  ///< queries, keys and values have weights of their own
  bool joined_gradients = false;      ///< their gradients are made apart and copied into one
  bool padded_data = false;           ///< sequences are padding, which is not computed
  bool wide_probabilities = false;    ///< separate attention keeps its softmax in float32
};
struct MlpChoices {
  bool separate_projections = false;  ///< a gate and its factor have weights of their own
  bool parts_stay = false;            ///< mini-sequences keep what they compute until backward
  bool parts_of_hidden_size = false;  ///< by the paper's rule they have as many tokens as that
  bool stops_early = false;           ///< what is computed again is so until nothing more is needed
  bool concatenated_parts = false;    ///< their gradients are copied into one at the end
};
struct HeadChoices {
  bool narrow_product = false;           ///< logits are computed in the weights' type
  bool narrow_part_product = false;      ///< the same of parts of the output head
  bool narrow_part_sums = false;         ///< parts sum the table's gradient in the weights' type
  bool separate_part_gradients = false;  ///< parts have gradients of their own, added up at the end
};
struct WeightChoices {
  bool separate = false;               ///< each has memory of its own
  bool separate_terms = false;         ///< what is added to a gradient has memory of its own
  bool gradients_come_and_go = false;  ///< gradients have memory only while they are needed
  bool step_one_by_one = false;        ///< in backward, each when its own gradient is complete
  bool copied_unit_gradients = false;  ///< gradients are copied into their unit's
  bool outer_stay = false;             ///< divided ones outside layers stay whole between passes
  bool layers_stay = false;            ///< divided ones of layers stay whole between passes
  bool last_layer_stays = false;       ///< those of the last layer alone
  bool copied_units = false;           ///< divided ones are copied out of what they arrive in
  bool float32_parts = false;          ///< parts of divided ones are in float32 alone
  bool float32_versions = false;       ///< older versions have float32's memory
  bool narrow_sums = false;            ///< gradients are summed in the weights' type
};
/// Gradients that replicas sum together beside the last backward pass of a batch.
enum class Buckets : uint8_t {
  own,          ///< a layer, or as many as it takes
  first_chunk,  ///< parts of the first stage's first chunk; all of any other
  of_25_mib,    ///< so many bytes
  none          ///< nothing: all is summed behind the pass
};
struct OptimizerChoices {
  Buckets buckets = Buckets::own;
  bool narrow_gradients = false;     ///< gradients are there in the weights' type, too
  bool flattened_gradients = false;  ///< a step copies gradients into one tensor before summing
  bool forgets_head = false;         ///< the table of a head in parts is never stepped
  bool late_state = false;           ///< state is made in the first step
};
struct Choices {
  AttentionChoices attention;
  MlpChoices mlp;
  HeadChoices head;
  WeightChoices weights;
  OptimizerChoices optimizer;
  bool keeps_dropout_masks = false, keeps_stage_outputs = false;
  bool waits_for_tensor_sums = false;  ///< of the gradient of a linear map's input
  bool discards_at_once = false;       ///< what a layer gives that is computed again
  DeviceRules device;                  ///< of a virtual one
};

/// A program whose numbers a paper has, as far as it differs from frugal: a list of behaviours.
/// None of them changes what is computed.
class Program : public Choices {
 public:
  std::string name;  ///< what find_program() understands; empty: frugal itself

  /// `behaviour` outlives the program.
  void add(const Behaviour& behaviour);
  void remove(const Behaviour& behaviour);
  /// Removes a kernel that the program's file describes. False: it has none of this name.
  bool remove_kernel(std::string_view name);
  bool has(std::string_view behaviour) const;
  /// Behaviours in the order of their list.
  const std::vector<const Behaviour*>& behaviours() const { return behaviours_; }
  /// Steps until one leaves memory as it found it: what a step leaves in an allocator's pools the
  /// next one finds.
  int64_t steps_to_settle() const {
    return device.caching_allocator || optimizer.late_state ? 3 : 1;
  }
  /// True if an effect begins or ends at this event.
  bool hears(ModelEvent event) const { return heard_[static_cast<size_t>(event)]; }

  bool operator==(const Program& other) const {
    return name == other.name && behaviours_ == other.behaviours_;
  }

 private:
  /// Makes choices and events follow the list.
  void resolve();

  std::vector<const Behaviour*> behaviours_;
  std::bitset<static_cast<size_t>(ModelEvent::count_)> heard_;
};

/// "frugal" where it has no behaviour.
std::string name_of(const Program& program);

}  // namespace frugal::engine
