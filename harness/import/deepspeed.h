#pragma once
#include <string>
#include <vector>

#include "harness/import/imported.h"
#include "harness/import/nested_parts.h"

namespace frugal::harness {

/// A configuration of DeepSpeed in JSON. The model is no part of it.
Imported import_deepspeed(const std::string& text, const std::string& file,
                          const ImportOptions& options);

/// Its keys that change neither memory nor time of a step.
std::vector<KnownKeys> deepspeed_without_effect();
/// Keys that change what frugal does not have.
std::vector<KnownKeys> deepspeed_missing();

}  // namespace frugal::harness
