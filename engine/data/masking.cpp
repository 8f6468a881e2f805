#include "engine/data/masking.h"

#include "kernels/operations.h"
#include "kernels/philox.h"

namespace frugal::engine::masking {
namespace {

/// Site of masks: none of dropout's, which are few for each layer. Weights have a draw of their
/// own.
constexpr uint32_t site = 0xffffffffU;

/// True if a random word, uniform in [0, 1) when divided by 2^32, is below a probability.
bool below(uint32_t word, double probability) {
  return static_cast<double>(word) < probability * 0x1p32;
}

/// Token that a chosen position shows in place of `original`.
int32_t shown(const Philox::Words& words, int32_t original, int32_t mask, int64_t ids) {
  if (below(words[1], masked)) return mask;
  if (!below(words[1], masked + replaced)) return original;
  return static_cast<int32_t>(uint64_t{words[2]} * static_cast<uint64_t>(ids) >> 32U);
}

}  // namespace

int32_t token(const ModelConfig& model) { return static_cast<int32_t>(model.vocabulary - 1); }

void apply(Batch& batch, const RunConfig& config, const Draw& draw, int64_t ids) {
  const int64_t s = config.model.sequence, b = config.micro_batch;
  const RandomStream stream = {draw.seed, site, draw.step};
  const Philox::Keys keys = Philox::keys(stream);
  int64_t first = 0;  // the microbatch's first sequence, of the batch's
  for (MicroBatch& micro : batch) {
    for (int64_t i = 0; i < s * b; ++i) {
      const int64_t position = i / b, sequence = first + i % b;
      const auto group = static_cast<uint64_t>(sequence * s + position);
      const Philox::Words words = Philox::generate(stream, keys, group);
      int32_t& seen = micro.tokens[static_cast<size_t>(i)];
      int32_t& label = micro.labels[static_cast<size_t>(i)];
      label = CrossEntropy::ignored_label;
      if (!below(words[0], chosen)) continue;
      label = seen;
      seen = shown(words, seen, token(config.model), ids);
    }
    first += b;
  }
}

}  // namespace frugal::engine::masking
