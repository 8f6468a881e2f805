#pragma once
#include <algorithm>
#include <memory>
#include <optional>

#include "engine/memory/tensor.h"

namespace frugal::engine {

/// Parameters that replicas divide among each other together (RunConfig::shard): each replica has a
/// part of their elements, and all parts have as many.
struct ParameterUnit {
  /// Some elements, one behind the other.
  struct Stretch {
    int64_t begin = 0, count = 0;
    int64_t end() const { return begin + count; }
    /// Intersection; it may be empty.
    Stretch shared_with(const Stretch& other) const {
      const int64_t first = std::max(begin, other.begin);
      return {first, std::max<int64_t>(std::min(end(), other.end()) - first, 0)};
    }
  };

  int64_t offset = 0;    ///< in the block of all
  int64_t elements = 0;  ///< with what lies between and behind them
  int parts = 1;
  int layer = -1;             ///< whose parameters these are; −1 of those outside the layers
  std::vector<Stretch> gaps;  ///< of the block, where no parameter is
  /// All elements, while a pass needs them; empty otherwise.
  Tensor weights, gradients;

  /// Stretch of the block of all elements that is part `index`.
  Stretch part(int index) const { return {offset + index * (elements / parts), elements / parts}; }
  /// Begin of a rank's part in a block that has its parts of all units and nothing else.
  int64_t part_offset() const { return offset / parts; }
};

/// Memory of the weights and gradients of one rank. Reserved ahead for a whole model they are one
/// block each, in which parameters follow each other, so that what is done to all of them alike
/// (clearing gradients, their norm, the optimizer's step) is one operation and not one for each.
/// Otherwise each parameter has memory of its own.
///
/// The size to reserve is found by constructing the model twice: the first time, while counting,
/// parameters only say how large they are.
class ParameterStore {
 public:
  /// Parameters begin at multiples of this many elements, so that every one can be read and written
  /// 16 bytes at a time.
  static constexpr int64_t alignment = 8;
  static int64_t padded(int64_t elements) {
    return (elements + alignment - 1) / alignment * alignment;
  }

  struct Types {
    DType weight;
    std::optional<DType> gradient;  ///< none where gradients have no place of their own
    /// Puts vectors (biases, gains) behind everything else, so that what is done to the gradients
    /// of all vectors is one operation.
    bool vectors_last = false;
    /// Gives each parameter memory of its own, as some programs do. They follow each other all the
    /// same: what has no values need not be in one block (Tensor).
    bool separate = false;
    /// Number of replicas that have a part each; 1: there are no units.
    int parts = 1;
    /// Has the block of weights hold a rank's parts alone.
    bool part_of_weights = false;
    /// Has these parts take the memory of accumulation type; nobody reads them.
    bool wide_parts = false;
  };

  void count(const Types& types);
  bool counting() const { return counting_; }
  /// Begins a unit: parameters that are divided together, and apart from earlier ones.
  void begin_unit();
  /// One parameter more, while counting.
  void add(const Shape& shape);
  /// Ends counting and allocates what was counted. Throws OutOfMemory. Content is arbitrary; the
  /// caller fills the weights' block, so that nothing between two parameters is undefined.
  const Tensor& reserve(Ledger& ledger, const Types& types);

  /// The block of weights, until close().
  const Tensor& weight_block() const { return weights_; }

  /// The block of gradients, until close().
  const Tensor& gradient_block() const { return gradients_; }

  struct Memory {
    Tensor weight, gradient;
    int64_t offset = -1;                  ///< in the block, in elements; −1 for memory of its own
    std::shared_ptr<ParameterUnit> unit;  ///< null where there are none
  };
  /// Memory for one parameter: the next part of the block, or its own where none is reserved, which
  /// belongs to that place.
  Memory take(Ledger& ledger, const Types& types, const Shape& shape, Place place = {});

  /// Ends the reserved block: later parameters have memory of their own again.
  void close();

 private:
  void end_unit();

  bool counting_ = false;
  int parts_ = 1;
  std::vector<std::shared_ptr<ParameterUnit>> units_;
  size_t next_unit_ = 0;
  int64_t counted_ = 0, vectors_ = 0;  // elements; of all, and of vectors
  int64_t next_ = 0, next_vector_ = 0;
  Pieces sizes_;
  Tensor weights_, gradients_;
};

}  // namespace frugal::engine
