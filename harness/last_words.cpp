#include "harness/last_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/train/masking.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

constexpr int64_t shortest = 4, longest = 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_masked(const RunConfig& config) {
  return config.model.objective == Objective::masked_token;
}

struct Word {
  int64_t end = 0, length = 0;  // bytes of the text
};

/// Words that end in the held-out part with a passage before them, and no letter behind them.
std::vector<Word> words_in(const Text& text, int64_t passage) {
  const std::string& bytes = text.bytes();
  std::vector<Word> words;
  int64_t length = 0;
  for (int64_t i = text.training_bytes(); i < static_cast<int64_t>(bytes.size()); ++i) {
    if (is_letter(bytes[static_cast<size_t>(i)])) {
      ++length;
      continue;
    }
    if (length >= shortest && length <= longest && length < passage &&
        i - passage >= text.training_bytes())
      words.push_back({i, length});
    length = 0;
  }
  return words;
}

}  // namespace

LastWords::LastWords(const Text& text, const RunConfig& config, int64_t count) : config_(config) {
  const int64_t b = config.micro_batch, s = config.model.sequence;
  count = (count + b - 1) / b * b;
  const std::vector<Word> words = words_in(text, s + 1);
  const auto there_are = static_cast<int64_t>(words.size());
  if (there_are < count)
    throw InputError(
        fmt::format("the text's held-out tenth has {} passages that end with a word of {} to {} "
                    "letters, and {} are needed; ask for fewer, or give a longer text",
                    there_are, shortest, longest, count));
  const auto size = static_cast<size_t>(s * b);
  batch_.assign(static_cast<size_t>(count / b),
                {std::vector<int32_t>(size), std::vector<int32_t>(size)});
  for (int64_t i = 0; i < count; ++i) {
    const Word& word =
        words[static_cast<size_t>(i * (there_are - 1) / std::max<int64_t>(count - 1, 1))];
    put(i, text.bytes().substr(static_cast<size_t>(word.end - s - 1), static_cast<size_t>(s + 1)),
        word.length);
  }
}

/// `bytes` are one more than a sequence: tokens and, one further, labels.
void LastWords::put(int64_t passage, const std::string& bytes, int64_t word) {
  const int64_t b = config_.micro_batch, s = config_.model.sequence;
  MicroBatch& micro = batch_[static_cast<size_t>(passage / b)];
  for (int64_t i = 0; i < s; ++i) {
    const auto at = static_cast<size_t>(i * b + passage % b);
    const bool in_word = i >= s - word;
    const int32_t next = static_cast<unsigned char>(bytes[static_cast<size_t>(i + 1)]);
    micro.tokens[at] = static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
    micro.labels[at] = in_word ? next : CrossEntropy::ignored_label;
    if (is_masked(config_)) micro.tokens[at] = in_word ? masking::token(config_.model) : next;
  }
  lengths_.push_back(word);
}

bool LastWords::is_told(const HostTensor& logits, int64_t microbatch, int64_t column) const {
  const int64_t b = config_.micro_batch, s = config_.model.sequence, v = config_.model.vocabulary;
  const int64_t word = lengths_[static_cast<size_t>(microbatch * b + column)];
  for (int64_t i = s - word; i < s; ++i) {
    const auto row = logits.values.begin() + (i * b + column) * v;
    const int32_t label =
        batch_[static_cast<size_t>(microbatch)].labels[static_cast<size_t>(i * b + column)];
    if (std::max_element(row, row + v) - row != label) return false;
  }
  return true;
}

int64_t LastWords::told_by(Trainer& trainer) const {
  int64_t told = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(batch_.size()); ++i) {
    const HostTensor logits = trainer.logits(batch_[static_cast<size_t>(i)]);
    for (int64_t column = 0; column < config_.micro_batch; ++column)
      told += is_told(logits, i, column) ? 1 : 0;
  }
  return told;
}

}  // namespace frugal
