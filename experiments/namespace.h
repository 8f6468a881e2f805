#pragma once
#include "harness/namespace.h"

/// Experiments see the names of the harness and of what that sees (engine/namespace.h).
namespace frugal::experiments {
using namespace harness;
}
