#pragma once
#include <string>

#include "engine/namespace.h"
#include "kernels/virtual/software.h"

namespace frugal::engine {

/// What a program keeps, copies or makes besides what its technique needs; frugal itself none of
/// it. None of it changes what is computed. Each is a behaviour, which engine/program/behaviour.cpp
/// describes.
struct Keeping {
  bool float32_logits = false;
  bool float32_loss = false;
  bool log_probabilities = false;
  bool returned_logits = false;
  bool separate_softcap = false;
  bool float32_head_parts = false;
  bool narrow_part_sums = false;
  bool separate_part_gradients = false;
  bool unkept_statistics = false;
  bool float32_norms = false;
  bool dropout_masks = false;
  bool early_releases = false;
  bool joined_gradients = false;
  bool tied_sums = false;
  bool stepped_one_by_one = false;
  bool score_mask = false;
  bool rotary_tables = false;
  bool separate_activation = false;
  bool parts_until_layer_ends = false;
  bool concatenated_parts = false;
  bool recomputed_inputs = false;
  bool recomputed_outputs = false;
  bool gradients_when_needed = false;
  bool optimizer_intermediate = false;
  bool unstepped_head = false;
  bool late_state = false;
  bool separate_projections = false;
  bool causal_masks = false;
  bool kept_outputs = false;
  bool separate_scores = false;
  bool attention_workspace = false;
  bool padded_data = false;
  bool parts_of_hidden_size = false;
  bool copied_heads = false;
  bool float32_weight_versions = false;
  bool narrow_gradients = false;
  bool separate_weight_gradients = false;
  bool separate_parameters = false;
  bool flattened_gradients = false;
  bool outer_weights_stay = false;
  bool layer_weights_stay = false;
  bool copied_unit_gradients = false;

  bool operator==(const Keeping&) const = default;
};

/// A program whose numbers a paper has, as far as it differs from frugal: a list of behaviours.
struct Program {
  Keeping keeps;      ///< on any device
  Software software;  ///< what a virtual device's time depends on
  std::string name;   ///< what find_program() understands; empty: frugal itself

  bool operator==(const Program&) const = default;
};

/// "frugal" where it has no behaviour.
std::string name_of(const Program& program);

}  // namespace frugal::engine
