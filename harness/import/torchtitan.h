#pragma once
#include <string>

#include "harness/import/imported.h"

namespace frugal::harness {

/// A job configuration of torchtitan in TOML, with the sections of its versions until 2025.
Imported import_torchtitan(const std::string& text, const std::string& file,
                           const ImportOptions& options);

}  // namespace frugal::harness
