#pragma once
#include <string>
#include <vector>

#include "engine/schedule/timeline.h"

namespace frugal::engine {

/// Timelines one above the other, the planned one above what was measured for example: a row for
/// each stage, a cell for each pass with its microbatch, a colour for each batch in turn, and what
/// is idle left grey. Timelines of the same unit have the same scale, others the same width.

/// An SVG file. The share of idle time stands beside each stage, and each cell's action, version
/// and times in its tooltip.
std::string draw_svg(const std::vector<Timeline>& timelines);

/// Text for a terminal: F3 is the forward of microbatch 3, B its backward, I and W its backward's
/// two parts; F3b is its pass through the second of several chunks. `colour` adds ANSI's. `columns`
/// is how wide it may be, 0 as wide as every cell's text needs.
std::string draw_text(const std::vector<Timeline>& timelines, bool colour, int columns = 0);

}  // namespace frugal::engine
