#pragma once
#include <numeric>

#include "engine/checkpoint/host_tensor.h"
#include "engine/data/batch.h"
#include "harness/namespace.h"

namespace frugal::engine {
class DistributedModel;
}  // namespace frugal::engine

namespace frugal::harness {

/// A held-out task for trained models, as LAMBADA (Paperno et al. 2016, arXiv:1606.06031) is for
/// language models of words: the last word of a passage is told from what is before it. Passages
/// come from the held-out part of a text, are a sequence long, and end with a word of four to
/// sixteen letters.
///
/// A model that predicts the next token tells a word when each of its bytes is the most probable
/// one behind the true bytes before it, which is when greedy decoding tells it. One that predicts
/// hidden tokens sees masks in the word's place, and so its length, and tells all bytes at once.
class LastWords {
 public:
  /// `count` passages, or as many more as fill a microbatch, spread evenly. Throws InputError where
  /// the text has fewer.
  LastWords(const Text& text, const RunConfig& config, int64_t count);

  int64_t passages() const { return static_cast<int64_t>(lengths_.size()); }
  const Batch& batch() const { return batch_; }
  /// Letters of all their words.
  int64_t letters() const { return std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0}); }
  struct Told {
    int64_t words = 0, letters = 0;
  };
  /// Predictions of a model with its newest weights.
  Told evaluate(DistributedModel& model) const;

 private:
  void put(int64_t passage, const std::string& bytes, int64_t word);
  int64_t letters_told(const HostTensor& logits, int64_t passage) const;

  RunConfig config_;
  Batch batch_;
  std::vector<int64_t> lengths_;  // of the words, passage by passage
};

}  // namespace frugal::harness
