#pragma once
#include "harness/report/table.h"

namespace frugal::harness {

/// All models that have a name, with their sizes and how many parameters they have.
Table models_table();

}  // namespace frugal::harness
