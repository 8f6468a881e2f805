#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"

namespace frugal::engine {

/// Tokens, and labels that the model is to predict at each: the token that follows, or the one that
/// is hidden there. Each [s, b], row-major; a label of −100 is not counted.
struct MicroBatch {
  std::vector<int32_t> tokens, labels;
};
/// The microbatches of one step, of all replicas: one replica's after the other's.
using Batch = std::vector<MicroBatch>;

/// Number of labels that count.
int64_t counted_labels(const Batch& batch);

/// Draws uniformly random tokens and labels, or masks such tokens; a function of (config.seed,
/// step) and of a sequence's number in the batch. Microbatches and replicas make no difference.
Batch random_batch(const RunConfig& config, int64_t step);

/// Bytes of a text as tokens, masked where that is the objective; the last tenth is held out.
class Text {
 public:
  /// Throws InputError if the file cannot be read, is empty or is too short for a sequence, or if
  /// the vocabulary has no place for all bytes and the mask token that the objective needs.
  static Text from_file(const std::string& path, const RunConfig& config);
  Text(std::string bytes, const RunConfig& config);

  /// Sequences from random places of the training part; a function of (config.seed, step) and of a
  /// sequence's number in the batch.
  Batch training_batch(int64_t step) const;
  /// Number of microbatches that hold this many tokens, or as many as the held-out part has.
  int64_t held_out_microbatches(int64_t tokens) const;
  /// `count` microbatches of sequences spread evenly from the first held-out byte to the last,
  /// without overlap; fewer where there are not as many.
  Batch held_out_batch(int64_t count) const;
  const std::string& bytes() const { return bytes_; }
  int64_t training_bytes() const { return split_; }
  int64_t held_out_bytes() const { return static_cast<int64_t>(bytes_.size()) - split_; }

 private:
  void put(MicroBatch& batch, int64_t column, int64_t first_byte) const;
  MicroBatch empty() const;

  std::string bytes_;
  RunConfig config_;
  int64_t split_;
};

}  // namespace frugal::engine
