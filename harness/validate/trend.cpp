#include "harness/validate/trend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace frugal::harness {
namespace {

constexpr size_t fewest_blocks = 8;
/// Of a normal distribution, two-sided 99 %.
constexpr double deviations = 2.576;

struct Points {
  std::vector<double> at, log;
};

/// The shortest of each block.
Points shortest_of_blocks(std::span<const double> at, std::span<const double> seconds,
                          double block) {
  std::map<int64_t, std::pair<double, double>> shortest;  // seconds, and when
  for (size_t i = 0; i < at.size(); ++i) {
    const auto number = static_cast<int64_t>((at[i] - at[0]) / block);
    const std::pair candidate{seconds[i], at[i]};
    const auto [found, is_new] = shortest.try_emplace(number, candidate);
    if (!is_new) found->second = std::min(found->second, candidate);
  }
  Points points;
  for (const auto& [number, point] : shortest) {
    points.at.push_back(point.second);
    points.log.push_back(std::log(point.first));
  }
  return points;
}

std::vector<double> slopes_of(const Points& points) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.at.size(); ++i)
    for (size_t j = i + 1; j < points.at.size(); ++j)
      slopes.push_back((points.log[j] - points.log[i]) / (points.at[j] - points.at[i]));
  std::sort(slopes.begin(), slopes.end());
  return slopes;
}

double shortest_between(const Points& points, double from, double to) {
  double shortest = points.log.back();
  bool found = false;
  for (size_t i = 0; i < points.at.size(); ++i) {
    if (points.at[i] < from || points.at[i] > to) continue;
    shortest = found ? std::min(shortest, points.log[i]) : points.log[i];
    found = true;
  }
  return shortest;
}

}  // namespace

std::optional<Trend> trend_of(std::span<const double> at, std::span<const double> seconds,
                              double block) {
  const Points points = shortest_of_blocks(at, seconds, block);
  const size_t n = points.at.size();
  if (n < fewest_blocks) return std::nullopt;
  const double length = points.at.back() - points.at.front();
  const auto change_of = [&](double slope) { return std::expm1(slope * length); };
  const std::vector<double> slopes = slopes_of(points);
  const auto count = static_cast<double>(n);
  const double half = deviations * std::sqrt(count * (count - 1) * (2 * count + 5) / 18) / 2;
  const auto middle = static_cast<double>(slopes.size() - 1) / 2;
  const auto slope_at = [&](double position) {
    const auto last = static_cast<double>(slopes.size() - 1);
    return slopes[static_cast<size_t>(std::clamp(std::round(position), 0.0, last))];
  };
  const double quarter = length / 4;
  return Trend{.minutes = length / 60,
               .change = change_of(median(slopes)),
               .interval = {change_of(slope_at(middle - half)), change_of(slope_at(middle + half))},
               .envelope = std::expm1(
                   shortest_between(points, points.at.back() - quarter, points.at.back()) -
                   shortest_between(points, points.at.front(), points.at.front() + quarter)),
               .blocks = n};
}

double least_drift(double minutes) { return std::clamp(0.05 * minutes, 0.025, 0.05); }

bool drifts(const Trend& trend) {
  const double least = least_drift(trend.minutes);
  return trend.change >= least && trend.interval.low > 0 && trend.envelope >= least;
}

}  // namespace frugal::harness
