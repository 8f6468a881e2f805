#include "engine/optimizer/optimizer_state.h"

#include <algorithm>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Elements that come to the device at a time: few beside a model's weights, many beside what a
/// transfer costs in any case.
constexpr int64_t most = 1 << 24;

}  // namespace

OptimizerState::OptimizerState(Rank& rank, const View& weights, int moments, bool master,
                               const Pieces& pieces)
    : elements_(weights.size()) {
  const RunConfig& c = rank.config;
  if (c.offload_optimizer && !master && moments == 0)
    throw InputError(
        "the optimizer's state is offloaded and this optimizer has none (sgd without a float32 "
        "copy "
        "of the weights); choose another optimizer, or do not offload it");
  Ledger& ledger = c.offload_optimizer ? rank.host : rank.ledger;
  if (master)
    kept_[0] = Tensor(ledger, Kind::optimizer, accumulation_type(c.type), {elements_}, {}, pieces);
  for (int i = 1; i <= moments; ++i)
    kept_.at(static_cast<size_t>(i)) =
        Tensor(ledger, Kind::optimizer, c.state_type(), {elements_}, {}, pieces);
  for_each_part(rank, false, true, [&](const Part& part) {
    if (master) rank.run(Convert{weights.sliced(0, part.begin, part.count), part.master});
    if (moments > 0) rank.run(Fill{part.moment, 0});
    if (moments > 1) rank.run(Fill{part.second_moment, 0});
  });
}

void OptimizerState::update(const RankAt& at,
                            const std::function<void(const Part&)>& update) const {
  for_each_part(at, true, true, update);
}

void OptimizerState::read(const RankAt& at, const std::function<void(const Part&)>& reader) const {
  for_each_part(at, true, false, reader);
}

void OptimizerState::for_each_part(const RankAt& at, bool known, bool changes,
                                   const std::function<void(const Part&)>& visit) const {
  if (!at.rank.config.offload_optimizer) {
    visit({0, elements_, kept_[0], kept_[1], kept_[2]});
    return;
  }
  const int64_t at_once = std::min(elements_, most);
  std::array<Tensor, 3> here;
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!kept_[i].empty()) here[i] = at.allocate(kept_[i].type(), {at_once}, Kind::optimizer);
  for (int64_t begin = 0; begin < elements_; begin += at_once) {
    const int64_t count = std::min(at_once, elements_ - begin);
    std::array<View, 3> host, device;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].empty()) continue;
      host[i] = kept_[i].view().sliced(0, begin, count);
      device[i] = here[i].view().sliced(0, 0, count);
      if (known) at.run(Transfer{host[i], device[i]});
    }
    visit({begin, count, device[0], device[1], device[2]});
    for (size_t i = 0; changes && i < kept_.size(); ++i)
      if (!kept_[i].empty()) at.run(Transfer{device[i], host[i]});
  }
}

}  // namespace frugal::engine
