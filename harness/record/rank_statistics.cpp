#include "harness/record/rank_statistics.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/measure/statistics.h"
#include "harness/record/or_null.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

Spread spread_of(const std::vector<double>& samples) {
  return {quantile(samples, 0), quantile(samples, 0.25), quantile(samples, 0.5),
          quantile(samples, 0.75), quantile(samples, 1)};
}

json to_json(const Spread& spread) {
  return {{"smallest", spread.smallest},
          {"lower_quartile", spread.lower},
          {"median", spread.median},
          {"upper_quartile", spread.upper},
          {"largest", spread.largest}};
}

Spread spread_from_json(const JsonObject& object) {
  return {object.number("smallest", 0), object.number("lower_quartile", 0),
          object.number("median", 0), object.number("upper_quartile", 0),
          object.number("largest", 0)};
}

/// Seconds that each rank did not wait, step by step.
std::vector<std::vector<double>> computing(const std::vector<RankSamples>& ranks) {
  std::vector<std::vector<double>> all;
  for (const RankSamples& rank : ranks) {
    std::vector<double> own = rank.steps;
    std::transform(own.begin(), own.end(), rank.waiting.begin(), own.begin(), std::minus<>());
    all.push_back(std::move(own));
  }
  return all;
}

std::vector<double> skew_of(const std::vector<RankSamples>& ranks,
                            const std::vector<std::vector<double>>& computing) {
  std::vector<double> skew;
  for (size_t step = 0; step < ranks.front().steps.size(); ++step) {
    std::map<int, std::pair<double, double>> of_stage;  // shortest and longest
    for (size_t r = 0; r < ranks.size(); ++r) {
      const double seconds = computing[r][step];
      auto& [shortest, longest] =
          of_stage.try_emplace(ranks[r].stage, seconds, seconds).first->second;
      shortest = std::min(shortest, seconds);
      longest = std::max(longest, seconds);
    }
    double largest = 0;
    for (const auto& [stage, range] : of_stage)
      largest = std::max(largest, range.second - range.first);
    skew.push_back(largest);
  }
  return skew;
}

std::optional<RankStatistics::Straggler> straggler_of(
    const std::vector<RankSamples>& ranks, const std::vector<std::vector<double>>& computing) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    double upper = 0, median = 0;  // the slowest other's
    for (size_t other = 0; other < ranks.size(); ++other) {
      if (other == r || ranks[other].stage != ranks[r].stage) continue;
      upper = std::max(upper, quantile(computing[other], 0.75));
      median = std::max(median, quantile(computing[other], 0.5));
    }
    if (upper > 0 && quantile(computing[r], 0.25) > (1 + straggling) * upper)
      return RankStatistics::Straggler{static_cast<int>(r),
                                       quantile(computing[r], 0.5) / median - 1};
  }
  return std::nullopt;
}

}  // namespace

RankStatistics rank_statistics(const std::vector<RankSamples>& ranks) {
  RankStatistics statistics;
  for (const RankSamples& rank : ranks)
    statistics.ranks.push_back({rank.stage, spread_of(rank.steps), spread_of(rank.waiting)});
  const std::vector<std::vector<double>> own = computing(ranks);
  statistics.skew = spread_of(skew_of(ranks, own));
  statistics.straggler = straggler_of(ranks, own);
  return statistics;
}

json to_json(const RankStatistics& statistics) {
  json ranks = json::array();
  for (const RankStatistics::Rank& rank : statistics.ranks)
    ranks.push_back({{"stage", rank.stage},
                     {"step_time", to_json(rank.step)},
                     {"waiting", to_json(rank.waiting)}});
  json straggler = nullptr;
  if (statistics.straggler)
    straggler = {{"rank", statistics.straggler->rank}, {"slower", statistics.straggler->slower}};
  return {{"unit", "s"},
          {"ranks", ranks},
          {"skew", to_json(statistics.skew)},
          {"straggler", straggler}};
}

RankStatistics rank_statistics_from_json(const JsonObject& object) {
  RankStatistics statistics;
  for (const JsonObject& rank : object.objects("ranks"))
    statistics.ranks.push_back({static_cast<int>(rank.integer("stage", 0)),
                                spread_from_json(rank.object("step_time")),
                                spread_from_json(rank.object("waiting"))});
  statistics.skew = spread_from_json(object.object("skew"));
  if (!object.at("straggler").is_null()) {
    const JsonObject straggler = object.object("straggler");
    statistics.straggler = {static_cast<int>(straggler.integer("rank", 0)),
                            straggler.number("slower", 0)};
  }
  return statistics;
}

}  // namespace frugal::harness
