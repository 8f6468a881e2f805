#pragma once
#include "harness/record/record.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// Errors of predicted step times on runs that others have published (Band), on each virtual
/// machine that the records are of; no rows where none of them has any.
Table published_errors(const Records& records);

}  // namespace frugal::harness
