#include "engine/model/randomness.h"

#include "engine/model/parallel.h"

namespace frugal::engine::randomness {
namespace {

Dropout dropout(const Pass& pass, Site site, int layer, GlobalIndex index) {
  const auto sites = static_cast<uint32_t>(layer + 1) * 4U + static_cast<uint32_t>(site);
  const auto p = pass.training ? static_cast<float>(pass.rank.config.model.dropout) : 0.0F;
  return {p, {pass.rank.config.seed, sites, pass.draw}, index};
}

}  // namespace

Dropout of_hidden(const Pass& pass, Site site, int layer) {
  const RunConfig& c = pass.rank.config;
  const int shard = c.sequence_parallel ? pass.rank.tensor_group.rank() : 0;
  const int64_t size = parallel::local_sequence(pass.rank) * c.micro_batch * c.model.hidden;
  return dropout(pass, site, layer, {.offset = shard * size});
}

Dropout of_attention(const Pass& pass, int layer) {
  const RunConfig& c = pass.rank.config;
  const int64_t head = c.model.sequence * c.model.sequence;
  const int64_t local = c.model.heads / c.tensor_parallel * head;
  return dropout(pass, Site::attention_probabilities, layer,
                 {.offset = pass.rank.tensor_group.rank() * local,
                  .run = local,
                  .stride = c.model.heads * head});
}

}  // namespace frugal::engine::randomness
