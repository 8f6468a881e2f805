#include "engine/train/layer_run.h"

#include "engine/comm/parallel.h"
#include "engine/model/randomness.h"

namespace frugal {
namespace {

/// Makes the ranks meet, and tells when they did.
double meet(Rank& rank) {
  rank.device.synchronize();
  rank.tensor_group.barrier();
  rank.groups.context.barrier();
  return rank.device.now();
}

Tensor random_hidden(Rank& rank, uint32_t site) {
  const RunConfig& c = rank.config;
  Tensor x = rank.allocate({parallel::local_sequence(rank), c.micro_batch, c.model.hidden});
  const int shard = c.sequence_parallel ? rank.tensor_group.rank() : 0;
  rank.run(RandomNormal{
      x, 1, {c.seed, site, randomness::initial_draw}, {.offset = shard * x.view().size()}});
  return x;
}

}  // namespace

LayerRun::LayerRun(Cluster& cluster)
    : cluster_(cluster), members_(static_cast<size_t>(cluster.local_ranks())) {
  cluster_.run([this](Rank& rank) {
    of(rank) = {std::make_unique<TransformerLayer>(rank, 0), random_hidden(rank, 0),
                random_hidden(rank, 1)};
  });
}

LayerMemory LayerRun::memory() {
  LayerMemory result;
  cluster_.run([&](Rank& rank) {
    const Member& member = of(rank);
    rank.ledger.reset_peaks();
    const double start = rank.flops;
    TransformerLayer::Saved saved;
    member.layer->forward(rank, member.x, saved);
    const BytesPerKind held = rank.ledger.current_per_kind();
    const double middle = rank.flops;
    member.layer->backward(rank, member.dy, std::move(saved));
    if (rank.first_of_stage())
      result = {held, rank.ledger.peak_per_kind(), rank.ledger.peak(), middle - start,
                rank.flops - middle};
  });
  return result;
}

LayerTime LayerRun::time() {
  LayerTime result;
  cluster_.run([&](Rank& rank) {
    const Member& member = of(rank);
    TransformerLayer::Saved saved;
    const double start = meet(rank);
    member.layer->forward(rank, member.x, saved);
    const double middle = meet(rank);
    member.layer->backward(rank, member.dy, std::move(saved));
    const double end = meet(rank);
    if (rank.first_of_stage()) result = {middle - start, end - middle};
  });
  return result;
}

}  // namespace frugal
