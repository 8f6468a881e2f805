#include "engine/model/head/head_division.h"

#include <algorithm>

namespace frugal::engine {

HeadDivision::HeadDivision(const RunConfig& config)
    : ranks_(config.head_ranks()),
      d_(config.model.head_size()),
      groups_(config.model.key_value_heads() / config.tensor_parallel),
      groups_of_rank_(std::max<int64_t>(groups_ / ranks_, 1)),
      queries_(config.model.heads / config.tensor_parallel / ranks_) {}

View HeadDivision::evenly(const View& x) const {
  const int64_t row = x.cols(), part = row / ranks_;
  return x.strided(0, {ranks_, x.rows(), part}, {part, row, 1, 0});
}

HeadDivision::Pair HeadDivision::of_one(const View& qkv, const View& divided) const {
  if (groups_ >= ranks_) return {evenly(qkv), divided};
  const int64_t sharing = ranks_ / groups_, rows = qkv.rows(), row = qkv.cols();
  const int64_t part = rows * columns();
  const Shape shape{groups_, sharing, rows, queries_ * d_};
  return {qkv.strided(0, shape, {row / groups_, queries_ * d_, row, 1}),
          divided.strided(0, shape, {sharing * part, part, columns(), 1})};
}

std::vector<HeadDivision::Pair> HeadDivision::of_several(const View& qkv,
                                                         const View& divided) const {
  if (groups_ >= ranks_) return {};
  const int64_t sharing = ranks_ / groups_, rows = qkv.rows(), row = qkv.cols();
  const int64_t part = rows * columns();
  const Shape shape{groups_, rows, 2 * d_};
  const View all = qkv.strided(sharing * queries_ * d_, shape, {row / groups_, row, 1, 0});
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < sharing; ++i)
    pairs.push_back(
        {all, divided.strided(i * part + queries_ * d_, shape, {sharing * part, columns(), 1, 0})});
  return pairs;
}

}  // namespace frugal::engine
