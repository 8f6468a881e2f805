#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "harness/report/document/report_document.h"

namespace frugal::harness {

/// report.md: every artifact's tables, the verdicts and claims, the user's own runs, the pictures,
/// and how each case ended. `pictures` are relative to the page's folder.
std::string markdown_report(const ReportedRecords& records, const Reproduction& numbers,
                            const Inventories& inventories,
                            const std::vector<std::filesystem::path>& pictures);

}  // namespace frugal::harness
