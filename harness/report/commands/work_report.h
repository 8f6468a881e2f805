#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/train/step_work.h"
#include "harness/report/table.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {

/// What a record has under "work" (docs/records.md); `on` is its device. What a device has none of,
/// or what was not counted, is null.
nlohmann::json to_json(const StepWork& work, const std::string& on);
/// Throws InputError for what is missing, and for an operation that this program does not know.
StepWork step_work_from_json(const JsonObject& object);

/// A line for each name, what moves most bytes first.
Table operations_table(const StepWork& work);

}  // namespace frugal::harness
