#include "engine/program/behaviour.h"

#include <fmt/format.h>

#include "engine/config.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

using WhyNot = std::string_view (*)(const RunConfig&);

std::string_view always(const RunConfig& /*config*/) { return ""; }
std::string_view wide_logits(const RunConfig& config) {
  return config.narrow_logits ? "and narrow logits are on, which leave nothing to copy" : "";
}
std::string_view fused_attention(const RunConfig& config) {
  return config.attention == AttentionKind::separate || config.context_parallel > 1
             ? "and attention is not one fused operation of a whole sequence"
             : "";
}
std::string_view one_chunk(const RunConfig& config) {
  return config.schedule.has_chunks
             ? "and the schedule has several chunks on a stage, whose neighbours would wait for "
               "each other"
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

template <bool Keeping::*member>
Behaviour keeping(std::string_view name, std::string_view does, WhyNot why_not = always,
                  bool real = true) {
  return {name,
          Changes::memory,
          does,
          [](const Program& p) { return p.keeps.*member; },
          [](Program& p, bool on) { p.keeps.*member = on; },
          why_not,
          real};
}

template <bool Software::*member>
Behaviour separate(std::string_view name, std::string_view does, Changes changes = Changes::time) {
  return {name,
          changes,
          does,
          [](const Program& p) { return p.software.*member; },
          [](Program& p, bool on) { p.software.*member = on; },
          always};
}

template <Messages kind>
Behaviour messages(std::string_view name, std::string_view does, WhyNot why_not = always) {
  return {name,
          Changes::messages,
          does,
          [](const Program& p) { return p.software.messages == kind; },
          [](Program& p, bool on) {
            if (on)
              p.software.messages = kind;
            else if (p.software.messages == kind)
              p.software.messages = Messages::beside;
          },
          why_not};
}

Behaviour caching_allocator() {
  return separate<&Software::caching_allocator>(
      "caching-allocator",
      "Memory comes from PyTorch's caching allocator, which rounds, keeps and fragments; on a "
      "virtual machine",
      Changes::memory);
}

Behaviour communicator_buffers() {
  return separate<&Software::communicator_buffers>(
      "communicator-buffers",
      "A communicator of all devices leaves less memory for everything else; on a virtual machine "
      "that says how much",
      Changes::memory);
}

/// What the output layer and the loss keep.
std::vector<Behaviour> of_logits() {
  using K = Keeping;
  return {
      keeping<&K::float32_logits>("float32-logits",
                                  "Logits are computed in the weights' type and copied to float32, "
                                  "which the model returns",
                                  wide_logits),
      keeping<&K::float32_loss>("float32-loss",
                                "The loss copies logits of the weights' type to float32, and their "
                                "gradient the other way",
                                wide_logits),
      keeping<&K::log_probabilities>("log-probabilities",
                                     "The loss keeps a log-probability for each logit, and makes "
                                     "their gradient before that of the logits",
                                     wide_logits),
      keeping<&K::unkept_statistics>("unkept-statistics",
                                     "The loss keeps no sums of exponentials, which "
                                     "log-probabilities make superfluous"),
      keeping<&K::returned_logits>("returned-logits",
                                   "Whoever calls the model keeps the logits that it returns until "
                                   "the backward pass ends",
                                   wide_logits),
      keeping<&K::separate_softcap>("separate-softcap",
                                    "A soft cap of logits keeps the tangent that it computes"),
      keeping<&K::float32_head_parts>("float32-head-parts",
                                      "A part of the output head copies its logits to float32, and "
                                      "has their probabilities beside them",
                                      wide_logits),
      keeping<&K::narrow_part_sums>("narrow-part-sums",
                                    "Parts of the output head sum the gradient of its weights in "
                                    "the weights' type"),
      keeping<&K::separate_part_gradients>(
          "separate-part-gradients",
          "Parts of the output head give gradients of their own; each is put into a tensor of the "
          "whole length, and these are added up")};
}

/// What layers keep.
std::vector<Behaviour> of_layers() {
  using K = Keeping;
  return {
      keeping<&K::float32_norms>("float32-norms",
                                 "A root mean square norm copies its input to float32 and keeps "
                                 "that, and what it gives before its gain"),
      keeping<&K::dropout_masks>("dropout-masks",
                                 "Dropout keeps a mask of one byte for each element; that within "
                                 "fused attention does not"),
      keeping<&K::separate_activation>("separate-activation",
                                       "An activation function keeps its input and its result; a "
                                       "gate's is multiplied in an operation of its own, whose two "
                                       "gradients are tensors"),
      keeping<&K::parts_until_layer_ends>("parts-until-layer-ends",
                                          "Mini-sequences of an MLP keep what they compute until "
                                          "the layer's backward pass, all parts together"),
      keeping<&K::parts_of_hidden_size>("parts-of-hidden-size",
                                        "Mini-sequences of an MLP by the paper's rule have as many "
                                        "tokens as its hidden size, but "
                                        "for the last, in place of equal parts",
                                        always, false),
      keeping<&K::concatenated_parts>("concatenated-parts",
                                      "What mini-sequences of an MLP give are tensors of their own "
                                      "until all are there, and are copied into one"),
      keeping<&K::recomputed_inputs>("recomputed-inputs",
                                     "A layer that is computed again keeps its input until its "
                                     "backward pass ends"),
      keeping<&K::recomputed_outputs>("recomputed-outputs",
                                      "A layer that is computed again keeps its output until its "
                                      "backward pass ends"),
      keeping<&K::kept_outputs>("kept-outputs",
                                "A stage keeps what it has sent until the microbatch's backward "
                                "pass has been made")};
}

/// What attention keeps.
std::vector<Behaviour> of_attention() {
  using K = Keeping;
  return {
      keeping<&K::separate_projections>(
          "separate-projections",
          "Queries, keys and values are tensors of their own, and so are a gate and what it is "
          "multiplied with; their weights' gradients and optimizer state, too",
          always, false),
      keeping<&K::attention_workspace>("attention-workspace",
                                       "Fused attention's backward pass sums the queries' gradient "
                                       "in float32, and has gradients "
                                       "of keys and values for each head of queries"),
      keeping<&K::padded_data>("padded-data",
                               "Nearly all of a sequence is padding, which fused attention neither "
                               "computes nor keeps",
                               fused_attention, false),
      keeping<&K::separate_scores>("separate-scores",
                                   "Attention's products of queries and keys, their softmax, and "
                                   "the gradients of both are tensors of their own"),
      keeping<&K::copied_heads>("copied-heads",
                                "Attention's result is copied from the order of heads, and the "
                                "gradients of queries, keys and values are tensors of their own, "
                                "of which the first two are scaled, before they are one"),
      keeping<&K::score_mask>("score-mask",
                              "A pass of a causal model whose attention computes scores keeps one "
                              "mask of a byte for each pair of positions"),
      keeping<&K::joined_gradients>("joined-gradients",
                                    "Gradients of queries, keys and values are tensors of their "
                                    "own, which are copied into one"),
      keeping<&K::early_releases>("early-releases",
                                  "A backward pass gives back the gradient of a layer's output, "
                                  "and those within attention, as soon as they have been read"),
      keeping<&K::rotary_tables>("rotary-tables",
                                 "A pass keeps cosines and sines of all positions, in the weights' "
                                 "type"),
      keeping<&K::causal_masks>("causal-masks",
                                "Each microbatch in flight keeps a mask of one byte for each pair "
                                "of positions")};
}

/// What steps keep and make.
std::vector<Behaviour> of_steps() {
  using K = Keeping;
  return {
      keeping<&K::gradients_when_needed>("gradients-when-needed",
                                         "A weight's gradient takes memory from the backward pass "
                                         "that computes it to the end of the step",
                                         gradients_in_backward),
      keeping<&K::narrow_gradients>("narrow-gradients",
                                    "Gradients are there in the weights' type, too, beside their "
                                    "float32 sums",
                                    whole_gradients),
      keeping<&K::separate_weight_gradients>("separate-weight-gradients",
                                             "What is added to a weight's gradient is a tensor of "
                                             "its own, in the weights' type"),
      keeping<&K::separate_parameters>("separate-parameters",
                                       "Each weight, its gradient and each part of its optimizer "
                                       "state is a tensor of its own, which an allocator rounds",
                                       whole_gradients, false),
      keeping<&K::tied_sums>("tied-sums",
                             "What both uses add to the gradient of a tied table, and the sum of "
                             "the two, are tensors of their own; the first waits for the second"),
      keeping<&K::stepped_one_by_one>("stepped-one-by-one",
                                      "A weight that steps in backward does so when its own "
                                      "gradient is complete, not with its layer's",
                                      layers_step_together),
      keeping<&K::flattened_gradients>("flattened-gradients",
                                       "A step copies all gradients, in the weights' type, into "
                                       "one tensor before replicas sum them",
                                       whole_gradients),
      keeping<&K::optimizer_intermediate>("optimizer-intermediate",
                                          "The optimizer's step makes one more tensor as large as "
                                          "the weights that it steps together, or two where it "
                                          "steps them in backward",
                                          state_on_device),
      keeping<&K::unstepped_head>("unstepped-head",
                                  "The table of an output head in parts, stepped in backward, is "
                                  "never stepped: its gradient stays, and it has no state",
                                  whole_gradients, false),
      keeping<&K::late_state>("late-state",
                              "The optimizer's state is made where the first step needs it, out of "
                              "what passes have given back",
                              always, false),
      keeping<&K::float32_weight_versions>("float32-weight-versions",
                                           "Older versions of the weights are kept in float32",
                                           whole_weights),
      caching_allocator(),
      communicator_buffers()};
}

/// What replicas that divide weights have whole for a while.
std::vector<Behaviour> of_divided() {
  using K = Keeping;
  return {
      keeping<&K::outer_weights_stay>(
          "outer-weights-stay",
          "Divided weights outside the layers are gathered together and stay whole until the "
          "microbatch's backward pass ends, where their gradients are summed together",
          one_stage),
      keeping<&K::layer_weights_stay>("layer-weights-stay",
                                      "Divided weights of a layer stay whole from its forward pass "
                                      "to the end of its backward pass, and the buffer that the "
                                      "last layer's were gathered in until the forward pass ends",
                                      one_stage),
      keeping<&K::copied_unit_gradients>(
          "copied-unit-gradients",
          "Gradients that replicas sum in the backward pass are tensors of their own, which are "
          "copied into one when those of a layer are there; a sum has no memory of its own where "
          "it "
          "is added to another")};
}

std::vector<Behaviour> of_time() {
  using S = Software;
  return {
      separate<&S::bias>("bias-kernel", "A product's bias is added by a kernel of its own"),
      separate<&S::gelu>("gelu-kernel", "GELU is a kernel of its own, with its bias"),
      separate<&S::dropout>("dropout-kernel", "Dropout behind a softmax is a kernel of its own"),
      separate<&S::mask>("mask-kernel",
                         "A causal mask is a kernel of its own before the softmax, "
                         "which then reads all scores"),
      separate<&S::dropout_add>("dropout-add-kernels",
                                "Bias, dropout and residual behind a block "
                                "are a kernel each"),
      separate<&S::residual>("residual-kernel",
                             "The gradient over a residual path is added by a "
                             "kernel of its own"),
      separate<&S::bias_gradient>("bias-gradient-kernel",
                                  "A bias's gradient is summed by a kernel "
                                  "of its own"),
      separate<&S::accumulation>("accumulation-kernel",
                                 "A weight's gradient is added to those "
                                 "before it by a kernel of its own"),
      separate<&S::clipping>("clipping-kernels",
                             "Gradients are scaled before the optimizer's "
                             "kernel, and weights copied behind it"),
      separate<&S::division>("division-kernel",
                             "Gradients are divided by the number of replicas, however many there "
                             "are, by a kernel of its own"),
      separate<&S::version_copies>("version-copies",
                                   "Passes of another version of the weights than the one before "
                                   "copy it out of float32, and a step with two versions copies "
                                   "each weight four times"),
      separate<&S::synchronised_passes>("synchronised-passes",
                                        "The host waits for the device before and after each pass"),
      separate<&S::batches>("batch-on-every-stage",
                            "Every stage fetches the batch before each forward pass, and computes "
                            "nothing meanwhile"),
      messages<Messages::blocking>("blocking-messages",
                                   "Both ends of a message, and their hosts, "
                                   "wait until it is there"),
      messages<Messages::exchanged>("exchanged-messages",
                                    "A stage sends and receives in one exchange with a neighbour, "
                                    "which begins when both are ready, and waits for it",
                                    one_chunk),
      separate<&S::buffered_messages>("buffered-messages",
                                      "The sender of a message that is exchanged is through with "
                                      "it when the last 4 MiB are in a buffer",
                                      Changes::messages),
      separate<&S::shared_ports>("shared-ports",
                                 "Exchanges of all stages of a node with other nodes go on at the "
                                 "same time, and share the node's ports",
                                 Changes::messages),
      separate<&S::sharded_messages>("sharded-messages",
                                     "Tensor-parallel ranks that have the same to send send a part "
                                     "of it each, and gather the parts",
                                     Changes::messages),
  };
}

}  // namespace

const std::vector<Behaviour>& behaviours() {
  static const std::vector<Behaviour> all = [] {
    std::vector<Behaviour> list;
    for (const auto& some :
         {of_logits(), of_layers(), of_attention(), of_steps(), of_divided(), of_time()})
      list.insert(list.end(), some.begin(), some.end());
    return list;
  }();
  return all;
}

void check_behaviours(const RunConfig& config) {
  for (const Behaviour& behaviour : behaviours()) {
    if (!behaviour.has(config.program)) continue;
    if (const std::string_view why = behaviour.why_not(config); !why.empty())
      throw InputError(fmt::format("the program {} has {}, {}; take it out (program={}~{})",
                                   config.program.name, behaviour.name, why, config.program.name,
                                   behaviour.name));
  }
}

void check_behaviours_on_real(const Program& program, const std::string& on) {
  for (const Behaviour& behaviour : behaviours())
    if (behaviour.has(program) && !behaviour.real)
      throw InputError(
          fmt::format("the program {} has {}, which a virtual device alone can have, and on is "
                      "{}; give program={}:real, or on=virtual:MACHINE",
                      program.name, behaviour.name, on, program.name));
}

}  // namespace frugal::engine
