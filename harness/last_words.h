#pragma once
#include "engine/train/trainer.h"

namespace frugal {

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
  /// How many words the model of a trainer tells, with its newest weights.
  int64_t told_by(Trainer& trainer) const;

 private:
  void put(int64_t passage, const std::string& bytes, int64_t word);
  bool is_told(const HostTensor& logits, int64_t microbatch, int64_t column) const;

  RunConfig config_;
  Batch batch_;
  std::vector<int64_t> lengths_;  // of the words, passage by passage
};

}  // namespace frugal
