#pragma once
#include "harness/record.h"
#include "harness/table.h"

namespace frugal {

/// A record for people: one line per quantity, with its unit. Bytes are shown in units that suit
/// them.
Table measurement_table(const Record& record);

}  // namespace frugal
