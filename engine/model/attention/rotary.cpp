#include "engine/model/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/model/head/head_views.h"
#include "engine/model/parallel.h"

namespace frugal::engine {
namespace {

template <class A>
void upload(Device& device, const Tensor& to, const std::vector<double>& values) {
  const std::vector<A> narrow(values.begin(), values.end());
  device.copy_from_host(to, narrow.data());
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryConfig& config, int64_t head_size) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const double plain =
        std::pow(config.base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    const double turns = plain * static_cast<double>(config.original) / (2 * std::numbers::pi);
    // How much of the frequency stays as it is.
    const double kept =
        config.bands ? std::clamp((turns - config.low) / (config.high - config.low), 0.0, 1.0) : 0;
    frequencies.push_back(plain * (kept + (1 - kept) / config.factor));
  }
  return frequencies;
}

RotaryPositions::RotaryPositions(const RankAt& at) {
  const ModelConfig& m = at.rank.config.model;
  if (m.positions != PositionKind::rotary) return;
  frequencies_ =
      at.allocate(accumulation_type(at.rank.config.type), {m.head_size() / 2}, Kind::statistics);
  if (!at.rank.device.backed()) return;
  const std::vector<double> values = rotary_frequencies(m.rotary, m.head_size());
  if (frequencies_.type() == DType::f64)
    upload<double>(at.rank.device, frequencies_, values);
  else
    upload<float>(at.rank.device, frequencies_, values);
}

void RotaryPositions::apply(const Pass& pass, const View& qkv, bool inverse) const {
  if (frequencies_.empty()) return;
  const HeadViews views(pass.rank.config.model);
  for (const Positions::Piece& piece : parallel::group_positions(pass.rank))
    pass.run(Rotary{.x = views.queries_and_keys(piece.of(qkv)),
                    .frequencies = frequencies_,
                    .first = piece.first,
                    .inverse = inverse});
}

}  // namespace frugal::engine
