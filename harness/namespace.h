#pragma once
#include "engine/namespace.h"

/// The harness sees the names of the engine and of what that sees (engine/namespace.h).
namespace frugal::harness {
using namespace engine;
using engine::name_of;
}  // namespace frugal::harness
