#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/measure/artifact.h"
#include "harness/report/inventory.h"
#include "harness/report/reproduction.h"

namespace frugal::harness {

/// Records of several folders, as if they were one folder's.
struct ReportedRecords {
  Records records;
  std::vector<std::string> files;  ///< "korthikanti2022/records.jsonl", one for each record
  std::vector<size_t> lines;       ///< in that file, from 1
};

/// An artifact and what it came to.
struct ReportedArtifact {
  const Artifact* artifact;
  Reproduction numbers;
};

/// Those that have records; and, of papers that have any, those that need none.
std::vector<ReportedArtifact> reported_artifacts(const std::vector<const Artifact*>& artifacts,
                                                 const Records& records);
/// All of them together.
Reproduction all_numbers(const std::vector<ReportedArtifact>& artifacts);

/// What the page of `frugal report` shows (docs/report.md): "frugal.report/1". `timelines` are as
/// timeline_json() has them.
nlohmann::json report_document(const ReportedRecords& records,
                               const std::vector<ReportedArtifact>& artifacts,
                               const Inventories& inventories,
                               std::vector<nlohmann::json> timelines);

/// The page: one file that needs no other and no network. `pictures` are shown below: name and
/// "data:" address of each.
std::string report_page(nlohmann::json document,
                        const std::vector<std::pair<std::string, std::string>>& pictures);

}  // namespace frugal::harness
