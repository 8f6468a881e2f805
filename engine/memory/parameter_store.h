#pragma once
#include <optional>

#include "engine/memory/tensor.h"

namespace frugal::engine {

/// Where the weights and gradients of one rank live. Reserved ahead for a whole model they are one
/// block each, in which parameters follow each other, so that what is done to all of them alike
/// (clearing gradients, their norm, the optimizer's step) is one operation and not one for each.
/// Otherwise each parameter has memory of its own.
///
/// How much to reserve is found by constructing the model twice: the first time, while counting,
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
    /// Whether vectors (biases, gains) lie behind everything else, so that what is done to the
    /// gradients of all vectors is one operation.
    bool vectors_last = false;
    /// Whether a program has each parameter in memory of its own. They follow each other all the
    /// same: what has no values need not be in one block (Tensor).
    bool separate = false;
  };

  void count() {
    counting_ = true;
    counted_ = vectors_ = 0;
    sizes_.clear();
  }
  bool counting() const { return counting_; }
  /// One parameter more, while counting.
  void add(const Shape& shape) {
    counted_ += padded(shape.size());
    if (shape.dims == 1) vectors_ += padded(shape.size());
    sizes_.push_back(shape.size());
  }
  /// Ends counting and allocates what was counted. Throws OutOfMemory. Content is arbitrary; the
  /// caller fills the weights' block, so that nothing between two parameters is undefined.
  const Tensor& reserve(Ledger& ledger, const Types& types);

  /// The block of gradients, until close().
  const Tensor& gradient_block() const { return gradients_; }

  struct Memory {
    Tensor weight, gradient;
    int64_t offset = -1;  ///< in the block, in elements; −1 for memory of its own
  };
  /// Memory for one parameter: the next part of the block, or its own where none is reserved, which
  /// belongs to that place.
  Memory take(Ledger& ledger, const Types& types, const Shape& shape, Place place = {});

  /// What comes after has memory of its own again.
  void close();

 private:
  bool counting_ = false;
  int64_t counted_ = 0, vectors_ = 0;  // elements; of all, and of vectors
  int64_t next_ = 0, next_vector_ = 0;
  Pieces sizes_;
  Tensor weights_, gradients_;
};

}  // namespace frugal::engine
