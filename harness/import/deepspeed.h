#pragma once
#include <string>

#include "harness/import/imported.h"

namespace frugal::harness {

/// A configuration of DeepSpeed in JSON. The model is no part of it.
Imported import_deepspeed(const std::string& text, const std::string& file,
                          const ImportOptions& options);

}  // namespace frugal::harness
