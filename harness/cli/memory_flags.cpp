#include "harness/cli/memory_flags.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/config_rules.h"
#include "harness/names.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

constexpr const char* by_paper = "paper";

int64_t chunks_of(const char* flag, const std::string& text) {
  if (text == by_paper) return RunConfig::by_rule;
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > rules::most_tokens)
    throw InputError(
        fmt::format("{} is \"{}\"; it must be a whole number from 1 to {}, or {} for as many as "
                    "mst2024's rule says",
                    flag, text, rules::most_tokens, by_paper));
  return value;
}

/// All in the weights' type, where there is a choice.
void check_precision(const RunConfig& config) {
  if (config.precision == Precision::pure && accumulation_type(config.type) == config.type)
    throw InputError(fmt::format(
        "--precision is pure and the type is {}, in which gradients and optimizer state are "
        "anyway; leave it out, or give --type bf16",
        name_of(config.type)));
}

}  // namespace

AttentionKind default_attention(const ModelConfig& model, Recompute recompute) {
  const bool fused = model.positions == PositionKind::rotary && recompute != Recompute::selective;
  return fused ? AttentionKind::fused : AttentionKind::separate;
}

void MemoryFlags::add_to(Flags& flags) {
  flags.choice("--recompute", recompute, all_names<Recompute>(),
               "Activations that are computed again");
  flags.choice("--attention", attention, all_names<AttentionKind>(), attention_help);
  flags.toggle("--stored-masks", stored_masks,
               "Keep dropout masks, one byte per element, instead of regenerating them");
  const std::string allowed = std::string("N|") + by_paper;
  flags.text("--mlp-chunks", mlp_chunks, allowed,
             "Mini-sequences of the MLP, whose intermediate tensors are computed again in its "
             "backward pass; paper: of as many tokens as the hidden size");
  flags.text("--head-chunks", head_chunks, allowed,
             "Mini-sequences of the output head, so that not all logits exist together; paper: "
             "vocabulary size / hidden size of them");
  flags.integer("--head-tiles", head_tiles, 1,
                "Parts of the vocabulary that the output head computes one after the other");
  flags.toggle("--step-in-backward", step_in_backward,
               "Update a layer's weights when its backward pass ends, and drop their gradients; "
               "without clipping");
  flags.number("--clip", clip, 0, 1e9,
               "Greatest norm of the gradient of the whole model; 0: none, and stages without a "
               "flush do not wait for each other. 1 otherwise, and 0 with --step-in-backward");
  flags.toggle("--offload", offload,
               "Keep the inputs of layers that --recompute full keeps in the host's memory");
  flags.toggle("--offload-optimizer", offload_optimizer,
               "Keep the optimizer's state in the host's memory; parts of it come to the device "
               "for their update");
  flags.toggle(
      "--narrow-reduction", narrow_reduction,
      "Replicas sum their gradients in the type of the weights, rounded to it before: half "
      "the bytes with --type bf16");
  flags.toggle("--narrow-logits", narrow_logits,
               "Keep logits in the type of the weights, and their gradient in their place: with "
               "--type bf16 a third of the bytes");
  flags.toggle("--overwrite-gradients", overwrite_gradients,
               "Have a step's first product overwrite a weight's gradient, instead of clearing all "
               "gradients and adding to them");
  flags.choice("--precision", precision, all_names<Precision>(),
               "Where --type is bf16, gradients and optimizer state in float32, with a float32 "
               "copy of the weights, or all in bf16 without one");
}

void MemoryFlags::put_into(RunConfig& config) const {
  config.recompute = *from_name<Recompute>(recompute);
  config.attention = attention.empty() ? default_attention(config.model, config.recompute)
                                       : *from_name<AttentionKind>(attention);
  config.stored_masks = stored_masks;
  config.mlp_chunks = chunks_of("--mlp-chunks", mlp_chunks);
  config.head_chunks = chunks_of("--head-chunks", head_chunks);
  config.head_tiles = head_tiles;
  config.step_in_backward = step_in_backward;
  config.offload = offload;
  config.offload_optimizer = offload_optimizer;
  config.narrow_reduction = narrow_reduction;
  config.narrow_logits = narrow_logits;
  config.overwrite_gradients = overwrite_gradients;
  config.precision = *from_name<Precision>(precision);
  check_precision(config);
}

double MemoryFlags::clip_or_default() const {
  if (!step_in_backward) return clip.value_or(OptimizerOptions().clip);
  if (clip.value_or(0) == 0) return 0;
  throw InputError(fmt::format(
      "--clip is {}, and with --step-in-backward weights are updated before the norm of all "
      "gradients is known; leave --clip out, or --step-in-backward",
      *clip));
}

std::string MemoryFlags::text_of(const RunConfig& config) const {
  std::string text =
      fmt::format(" --recompute {} --attention {}", recompute, name_of(config.attention));
  const auto add = [&](bool given, const std::string& flag) {
    if (given) text += " " + flag;
  };
  add(clip.has_value(), fmt::format("--clip {}", clip.value_or(0)));
  add(stored_masks, "--stored-masks");
  add(mlp_chunks != "1", "--mlp-chunks " + mlp_chunks);
  add(head_chunks != "1", "--head-chunks " + head_chunks);
  add(head_tiles != 1, fmt::format("--head-tiles {}", head_tiles));
  add(step_in_backward, "--step-in-backward");
  add(offload, "--offload");
  add(offload_optimizer, "--offload-optimizer");
  add(narrow_reduction, "--narrow-reduction");
  add(narrow_logits, "--narrow-logits");
  add(overwrite_gradients, "--overwrite-gradients");
  add(precision != name_of(Precision::mixed), "--precision " + precision);
  return text;
}

}  // namespace frugal
