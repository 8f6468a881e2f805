#pragma once
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "engine/pass.h"

namespace frugal::engine {

/// Position of a rank's part in the serial weight.
enum class Sharding : uint8_t {
  replicated,
  rows,       ///< part `rank` of the first dimension
  columns,    ///< part `rank` of the last dimension
  row_halves  ///< part `rank` of each half of the rows: two maps of one input, one behind the other
};

/// Start of a weight: N(0, deviation²), or a constant where deviation is 0.
struct Initial {
  float deviation = 0;
  float constant = 0;

  /// N(0, 0.02²), as GPT-2 and Megatron-LM start.
  static Initial weight() { return {.deviation = 0.02F}; }
  /// N(0, 0.02² / 2L), where a layer adds to the residual.
  static Initial residual_weight(const ModelConfig& model) {
    return {.deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(model.layers))};
  }
};

/// A gradient that a product is a term of: what was there is another one, or nothing.
struct GradientSum {
  View view;
  bool accumulate = true;
};

/// A weight with its gradient (in accumulation type), on one rank.
struct Parameter {
  std::string name;
  Sharding sharding = Sharding::replicated;
  /// Replicated, but each rank's gradient covers only its shard of the sequence: the gradients of
  /// the tensor-parallel group must be summed before they are used.
  bool gradient_is_partial = false;
  /// The first and the last stage of the pipeline both have it: they step with the sum of their
  /// gradients.
  bool tied = false;
  /// Another stage has it too and counts for it: in the norm of the gradient, in files.
  bool is_copy = false;
  /// Forward passes read the rows that they look up, and backward passes none.
  bool looked_up = false;
  Shape serial_shape;
  Tensor weight;
  Pieces pieces;  ///< of its rows that a program has as weights of their own
  /// Empty between the passes of a run that steps in backward.
  mutable Tensor gradient;
  /// True until something is added to the gradient: its memory holds anything.
  mutable bool fresh = false;
  int64_t offset = -1;  ///< in the rank's block of parameters (ParameterStore), −1 for none
  /// Unit that replicas divide it in; null where they do not.
  std::shared_ptr<ParameterUnit> unit;

  Parameter() = default;
  /// Allocates the rank's part, fills it, and clears the gradient. Element i of the serial weight
  /// is the same for every sharding. Only tells its size while the rank's parameters are counted.
  Parameter(const RankAt& at, std::string name, const Shape& serial, Sharding sharding,
            Initial initial);

  const View& view() const { return weight.view(); }
  const View& grad() const { return gradient.view(); }
  /// The gradient that a backward pass adds to. Where none is kept between passes
  /// (RunConfig::step_in_backward), it is taken when it is first asked for. Cleared where it is
  /// fresh.
  const View& grad(const RankAt& at) const;
  /// Gradient for a product, which need not clear it (RunConfig::overwrite_gradients).
  GradientSum product_sum(const RankAt& at) const;
  /// Memory of what is added to the gradient, where that has some of its own
  /// (WeightChoices::separate_terms); otherwise empty.
  Tensor memory_beside_sum(const RankAt& at) const;
  /// Memory of the last of its pieces, each of which had some in its turn.
  Tensor piece_beside_sum(const RankAt& at) const;
  /// Elements in the rank's block of parameters.
  ParameterUnit::Stretch stretch() const { return {offset, view().size()}; }
  /// Copies this rank's elements of a weight that replicas divide to the block of its parts, and
  /// unbinds the whole weight.
  void keep_part(const RankAt& at, const Tensor& block);
  /// Makes the weight a part of `block`, which begins with element `first` of the rank's block of
  /// parameters.
  void bind(const Tensor& block, int64_t first = 0);
  /// Makes the weight one that this rank has no memory of: replicas have parts of it.
  void unbind();
  /// Index of the local elements in the serial weight.
  GlobalIndex global_index(const Rank& rank) const;

 private:
  void take_gradient(const RankAt& at) const;
};

/// A unit's gradients, of all its elements: taken where there are none.
const Tensor& gradients_of(const RankAt& at, ParameterUnit& unit);

/// Types of weights and their gradients in a run.
ParameterStore::Types types_of(const RunConfig& config);

/// All parameters of a module, in a fixed order.
using ParameterList = std::vector<Parameter*>;
ParameterList join(std::initializer_list<ParameterList> lists);
/// A parameter, and another one where there is one.
ParameterList with_optional(Parameter& one, std::optional<Parameter>& other);
/// Pieces of memory of these, one behind the other: each of them, where they are separate
/// (WeightChoices), or of a single one its own. Empty: one piece.
Pieces pieces_of(const RunConfig& config, const ParameterList& parameters);
/// True if the parts of weights that replicas divide are there in float32 alone
/// (WeightChoices::float32_parts).
bool has_float32_parts(const RunConfig& config);
/// Sizes of a unit's weights among these, or of their pieces.
Pieces pieces_in(const ParameterUnit& unit, const ParameterList& parameters);

/// True if a weight steps in backward as soon as its own gradient is complete.
bool steps_alone(const RunConfig& config);
/// Tells who steps in backward that these gradients are complete, of a program whose weights step
/// one by one; otherwise it is told of a layer's together.
void step_alone(const Pass& pass, ParameterList parameters);

}  // namespace frugal::engine
