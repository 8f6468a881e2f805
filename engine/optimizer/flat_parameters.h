#pragma once
#include <utility>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// Constructs what `make` returns, a model by pointer, with all its weights in one block of memory,
/// which is returned with it. `make` is called twice: first to count the weights.
template <class Make>
auto in_one_block(Rank& rank, const Make& make) {
  rank.parameters.count(types_of(rank.config));
  (void)make();
  Tensor block = rank.parameters.reserve(rank.ledger, types_of(rank.config));
  rank.run(Fill{block, 0});
  if (const Tensor& gradients = rank.parameters.gradient_block(); !gradients.empty())
    rank.run(Fill{gradients, 0});
  auto model = make();
  rank.parameters.close();
  return std::pair{std::move(model), std::move(block)};
}

/// Elements of a parameter that this rank steps.
struct ParameterSlice {
  Parameter* parameter;
  int64_t begin = 0, count = 0;
};
/// All of a parameter, or where replicas divide it, this rank's part.
ParameterSlice own_slice(const Rank& rank, Parameter& p);

/// Slices that follow each other in memory and are treated alike: usually a whole model. Padding
/// between two of them is treated as they are.
struct ParameterGroup {
  std::vector<ParameterSlice> slices{};
  int64_t offset = -1;  ///< of the first element in the block of parameters; −1 for none
  int64_t elements = 0;
  bool counted = true;  ///< in this rank's part of the gradient's norm
  bool tied = false;    ///< Parameter::tied

  const Parameter& first() const { return *slices.front().parameter; }
  const ParameterUnit* unit() const { return first().unit.get(); }
  ParameterList members() const;
  /// A slice's elements in a view of all the group's.
  View of_slice(const View& group, const ParameterSlice& slice) const;
};

/// Blocks of all weights of a rank (ParameterStore): a step reads one and writes the other, which
/// may be the same. Empty: the parameters' own memory, in place.
struct WeightBlocks {
  Tensor from, to;
};

/// A rank's parameters, and their gradients, as a few flat groups in memory's order.
class FlatParameters {
 public:
  /// Parameters that replicas divide together.
  struct Unit {
    std::shared_ptr<ParameterUnit> unit;
    const Parameter* first;  ///< in memory
    Tensor gradients{};      ///< this rank's part, where a pass has summed it and no block has it
  };

  FlatParameters(Rank& rank, ParameterList parameters);

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  const std::vector<Unit>& units() const { return units_; }

  /// Sizes of a group's weights where a program has memory for each: of a rank's part of a unit
  /// those of all its weights, of which such a program has a part each.
  Pieces pieces_of(const ParameterGroup& group) const;
  /// Views of all elements of a group.
  View gradient_of(const ParameterGroup& group) const;
  View weights_of(const ParameterGroup& group, const Tensor& block) const;
  /// A group's elements in the rank's part of its unit.
  View in_unit(const ParameterGroup& group, const View& part) const;
  /// Gradients of a unit that replicas have not divided yet.
  static View whole_gradient(const Unit& unit);

  /// Clears gradients, or gives back their memory where they have none between steps. With
  /// RunConfig::overwrite_gradients only vectors are cleared; matrices are marked unwritten, since
  /// the first product overwrites them.
  void clear_gradients();
  /// Zeroes the gradients that no product has written.
  void zero_unwritten();
  /// True if the rank has gradients of the unit from passes of this step.
  bool has_gradients(const ParameterUnit& unit) const;
  /// Adds a rank's part of a unit's summed gradients to those before it. Returns the sum.
  View add_gradients(const RankAt& at, const ParameterUnit& unit, const Tensor& gradients);
  /// Gathers the parts of a block of weights that replicas have stepped: of one unit, or of all.
  void gather_weights(const Tensor& block, const ParameterUnit* only = nullptr) const;

 private:
  void add_to_groups(Parameter& p);
  void mark_unwritten();
  size_t index_of(const ParameterUnit& unit) const;
  /// Unit::gradients.
  const Tensor& part_of_gradient(const ParameterUnit& unit) const;
  View in_parts(const ParameterGroup& group, const View& parts) const;

  Rank& rank_;
  ParameterList parameters_;
  std::vector<Unit> units_;
  std::vector<ParameterGroup> groups_;
  Tensor gradients_;  // this rank's parts of all units, where it has them between steps
};

/// Sums over a group and waits; nothing where a rank is alone in it.
void sum_over(Communicator& group, const View& x);

/// True for the weight that a program forgets to step (OptimizerChoices::forgets_head).
bool is_unstepped(const Rank& rank, const Parameter& p);

}  // namespace frugal::engine
