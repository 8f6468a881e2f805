#include "engine/model/randomness.h"

#include "engine/comm/parallel.h"

namespace frugal::randomness {
namespace {

Dropout dropout(const Rank& rank, Site site, int layer, GlobalIndex index) {
  const auto sites = static_cast<uint32_t>(layer + 1) * 4U + static_cast<uint32_t>(site);
  const auto p = rank.training ? static_cast<float>(rank.config.model.dropout) : 0.0F;
  return {p, {rank.config.seed, sites, rank.draw}, index};
}

}  // namespace

Dropout of_hidden(const Rank& rank, Site site, int layer) {
  const RunConfig& c = rank.config;
  const int shard = c.sequence_parallel ? rank.tensor_group.rank() : 0;
  const int64_t size = parallel::local_sequence(rank) * c.micro_batch * c.model.hidden;
  return dropout(rank, site, layer, {.offset = shard * size});
}

Dropout of_attention(const Rank& rank, int layer) {
  const RunConfig& c = rank.config;
  const int64_t head = c.model.sequence * c.model.sequence;
  const int64_t local = c.model.heads / c.tensor_parallel * head;
  return dropout(
      rank, Site::attention_probabilities, layer,
      {.offset = rank.tensor_group.rank() * local, .run = local, .stride = c.model.heads * head});
}

}  // namespace frugal::randomness
