#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "harness/measure/artifact.h"

namespace frugal::harness {

/// A timeline as the page of `frugal report` draws it (docs/report.md): times in the timeline's
/// unit, bytes.
nlohmann::json timeline_json(const DrawnTimeline& drawn);

/// Of the traces and memory files that `frugal trace` left in a folder, by name. Of a file that has
/// more than `most` moments of memory, the one with most bytes in each of as many equal times: no
/// peak is lost. Throws InputError that names a file which is not whole.
std::vector<nlohmann::json> recorded_timelines(const std::filesystem::path& folder,
                                               size_t most = 600);

}  // namespace frugal::harness
