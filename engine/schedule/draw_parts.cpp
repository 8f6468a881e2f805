#include "engine/schedule/draw_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace frugal::engine {
namespace {

/// Where no width is asked for: one very short pass does not make the others endless.
constexpr double widest_picture = 1 << 16;

double length(const Timeline& timeline) { return timeline.end() - timeline.begin(); }

/// A unit's width at which the shortest pass is `least` wide; 0 without any.
double readable(const Timeline& timeline, double least) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_pass(span.action.kind) && span.end > span.begin)
        shortest = std::min(shortest, span.end - span.begin);
  return least / shortest;
}

}  // namespace

int colour_of(const Timeline& timeline, const Action& pass) {
  return pass.microbatch / std::max(timeline.microbatches, 1) % batch_colours;
}

std::string cell_label(const Timeline& timeline, const Action& pass) {
  if (timeline.chunks == 1) return fmt::format("{}", pass.microbatch);
  return fmt::format("{}{}", pass.microbatch, static_cast<char>('a' + pass.chunk % 26));
}

std::vector<double> scales(const std::vector<Timeline>& timelines, double least, double most) {
  double width = 0;
  for (const Timeline& timeline : timelines)
    width = std::max(width, length(timeline) * readable(timeline, least));
  width = std::min(width, most > 0 ? most : widest_picture);
  std::vector<double> out;
  for (const Timeline& timeline : timelines) {
    double longest = 0;
    for (const Timeline& other : timelines)
      if (other.unit == timeline.unit) longest = std::max(longest, length(other));
    out.push_back(longest > 0 ? width / longest : 0);
  }
  return out;
}

}  // namespace frugal::engine
