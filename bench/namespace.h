#pragma once
#include "harness/namespace.h"

/// Benchmarks see the names of the harness and of what that sees (engine/namespace.h).
namespace frugal::bench {
using namespace harness;
}
