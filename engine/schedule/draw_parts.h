#pragma once
#include <string>
#include <vector>

#include "engine/schedule/timeline.h"

// What both drawers need.
namespace frugal::engine {

inline constexpr int batch_colours = 4;

/// The colour of the batch that a pass belongs to.
int colour_of(const Timeline& timeline, const Action& pass);

/// "3", or "3b" for the second of several chunks.
std::string cell_label(const Timeline& timeline, const Action& pass);

/// How wide a unit of time is in each timeline, so that the shortest pass of any is `least` wide,
/// and no timeline wider than `most` (0: as wide as that takes).
std::vector<double> scales(const std::vector<Timeline>& timelines, double least, double most);

}  // namespace frugal::engine
