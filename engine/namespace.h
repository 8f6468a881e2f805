#pragma once

namespace frugal::kernels {}

/// The engine sees the names of kernels/, and not the other way round. A file of the engine that
/// includes no other header of the engine includes this one.
namespace frugal::engine {
using namespace kernels;
}
