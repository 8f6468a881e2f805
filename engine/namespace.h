#pragma once
#include "kernels/support/names.h"

/// The engine sees the names of kernels/, and not the other way round. A file of the engine that
/// includes no other header of the engine includes this one.
namespace frugal::engine {
using namespace kernels;
using kernels::name_of;  // beside the overloads of the engine
}  // namespace frugal::engine
