#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/import/imported.h"
#include "harness/import/nested_parts.h"

namespace frugal::harness {

/// A job's configuration of torchtitan, in TOML, as its versions until February 2026 have it.
Imported import_torchtitan(const std::string& text, const std::string& file,
                           const ImportOptions& options);

/// Keys of all its versions with TOML that change neither memory nor time of a step.
std::vector<KnownKeys> torchtitan_without_effect();
/// Keys that change what frugal does not have.
std::vector<KnownKeys> torchtitan_missing();
/// Keys of a section that matter where there are several stages, or ranks that share a sequence.
KnownKeys torchtitan_stages(std::string_view section);
KnownKeys torchtitan_contexts(std::string_view section);

}  // namespace frugal::harness
