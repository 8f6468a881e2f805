#include "harness/measure/runs/last_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/data/masking.h"
#include "engine/train/distributed_model.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

constexpr int64_t shortest_word = 4, longest_word = 16;

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
    if (length >= shortest_word && length <= longest_word && length < passage &&
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
                    there_are, shortest_word, longest_word, count));
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

/// Of a passage's word, where the logits are its microbatch's.
int64_t LastWords::letters_told(const HostTensor& logits, int64_t passage) const {
  const int64_t b = config_.micro_batch, s = config_.model.sequence, v = config_.model.vocabulary;
  const std::vector<int32_t>& labels = batch_[static_cast<size_t>(passage / b)].labels;
  int64_t told = 0;
  for (int64_t i = s - lengths_[static_cast<size_t>(passage)]; i < s; ++i) {
    const int64_t at = i * b + passage % b;
    const auto row = logits.values.begin() + at * v;
    told += std::max_element(row, row + v) - row == labels[static_cast<size_t>(at)] ? 1 : 0;
  }
  return told;
}

LastWords::Told LastWords::evaluate(DistributedModel& model) const {
  Told told;
  HostTensor logits;
  for (int64_t i = 0; i < passages(); ++i) {
    if (i % config_.micro_batch == 0)
      logits = model.logits(batch_[static_cast<size_t>(i / config_.micro_batch)]);
    const int64_t letters = letters_told(logits, i);
    told.letters += letters;
    told.words += letters == lengths_[static_cast<size_t>(i)] ? 1 : 0;
  }
  return told;
}

}  // namespace frugal::harness
