#include "engine/data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "engine/data/masking.h"
#include "kernels/operations.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Generator that the C++ standard defines, so that it is the same everywhere. Distributions are
/// not, and are not used.
std::mt19937_64 generator(const RunConfig& config, int64_t step) {
  std::seed_seq seeds{static_cast<uint32_t>(config.seed), static_cast<uint32_t>(config.seed >> 32U),
                      static_cast<uint32_t>(step)};
  return std::mt19937_64(seeds);
}

constexpr int64_t bytes_there_are = 256;

bool is_masked(const RunConfig& config) {
  return config.model.objective == Objective::masked_token;
}

masking::Draw draw_of(const RunConfig& config, int64_t step) {
  return {config.seed, static_cast<uint32_t>(step)};
}

/// Throws InputError unless the vocabulary has all bytes, and the mask token where there is one.
void check_vocabulary(const RunConfig& config) {
  const int64_t needed = bytes_there_are + (is_masked(config) ? 1 : 0);
  if (config.model.vocabulary < needed)
    throw InputError(fmt::format("vocabulary size ({}) must be at least {} to train on bytes{}",
                                 config.model.vocabulary, needed,
                                 is_masked(config) ? ", of which none is the mask token" : ""));
}

}  // namespace

int64_t counted_labels(const Batch& batch) {
  int64_t count = 0;
  for (const MicroBatch& b : batch)
    count += std::count_if(b.labels.begin(), b.labels.end(),
                           [](int32_t label) { return label != CrossEntropy::ignored_label; });
  return count;
}

Batch random_batch(const RunConfig& config, int64_t step) {
  std::mt19937_64 random = generator(config, step);
  const auto size = static_cast<size_t>(config.model.sequence * config.micro_batch);
  const auto stride = static_cast<size_t>(config.micro_batch);
  const int64_t ids = is_masked(config) ? masking::token(config.model) : config.model.vocabulary;
  Batch batch(static_cast<size_t>(config.batch_microbatches()));
  for (MicroBatch& b : batch) {
    b.tokens.resize(size);
    b.labels.resize(size);
    // A sequence is drawn whole before the next one, so that they are the same however they are cut
    // into microbatches and replicas.
    for (size_t column = 0; column < stride; ++column)
      for (std::vector<int32_t>* const values : {&b.tokens, &b.labels})
        for (size_t at = column; at < size; at += stride)
          (*values)[at] = static_cast<int32_t>(random() % static_cast<uint64_t>(ids));
  }
  if (is_masked(config)) masking::apply(batch, config, draw_of(config, step), ids);
  return batch;
}

Text Text::from_file(const std::string& path, const RunConfig& config) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file && file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad() || content.fail())
    throw InputError(
        fmt::format("text file {} cannot be read; give a file of bytes to train on", path));
  if (content.str().empty())
    throw InputError(fmt::format("text file {} is empty; give a file of bytes to train on", path));
  try {
    return {content.str(), config};
  } catch (const InputError& e) {
    throw InputError(fmt::format("text file {}: {}", path, e.what()));
  }
}

Text::Text(std::string bytes, const RunConfig& config)
    : bytes_(std::move(bytes)),
      config_(config),
      split_(static_cast<int64_t>(bytes_.size()) / 10 * 9) {
  check_vocabulary(config);
  const int64_t needed = config.model.sequence * config.micro_batch + 1;
  if (held_out_bytes() < needed)
    throw InputError(
        fmt::format("its held-out tenth has {} bytes, and one microbatch needs {}; "
                    "give a longer text or a shorter sequence",
                    held_out_bytes(), needed));
}

MicroBatch Text::empty() const {
  const auto size = static_cast<size_t>(config_.model.sequence * config_.micro_batch);
  return {std::vector<int32_t>(size), std::vector<int32_t>(size)};
}

void Text::put(MicroBatch& batch, int64_t column, int64_t first_byte) const {
  for (int64_t i = 0; i < config_.model.sequence; ++i) {
    const auto at = static_cast<size_t>(i * config_.micro_batch + column);
    const auto byte = static_cast<size_t>(first_byte + i);
    batch.tokens[at] = static_cast<unsigned char>(bytes_[byte]);
    batch.labels[at] = static_cast<unsigned char>(bytes_[byte + 1]);
  }
}

Batch Text::training_batch(int64_t step) const {
  std::mt19937_64 random = generator(config_, step);
  const auto places = static_cast<uint64_t>(split_ - config_.model.sequence);
  Batch batch(static_cast<size_t>(config_.batch_microbatches()), empty());
  for (MicroBatch& b : batch)
    for (int64_t column = 0; column < config_.micro_batch; ++column)
      put(b, column, static_cast<int64_t>(random() % places));
  if (is_masked(config_)) masking::apply(batch, config_, draw_of(config_, step), bytes_there_are);
  return batch;
}

int64_t Text::held_out_microbatches(int64_t tokens) const {
  const int64_t one = config_.model.sequence * config_.micro_batch;
  const int64_t sequences = (held_out_bytes() - 1) / config_.model.sequence;
  return std::min((tokens + one - 1) / one, sequences / config_.micro_batch);
}

Batch Text::held_out_batch(int64_t count) const {
  count = std::min(count, held_out_microbatches(held_out_bytes()));
  Batch batch(static_cast<size_t>(count), empty());
  const int64_t last = held_out_bytes() - 1 - config_.model.sequence;
  const int64_t gaps = std::max<int64_t>(count * config_.micro_batch - 1, 1);
  int64_t sequence = 0;
  for (MicroBatch& b : batch)
    for (int64_t column = 0; column < config_.micro_batch; ++column)
      put(b, column, split_ + sequence++ * last / gaps);
  if (is_masked(config_)) masking::apply(batch, config_, masking::held_out, bytes_there_are);
  return batch;
}

}  // namespace frugal::engine
