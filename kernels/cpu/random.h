#pragma once
#include "kernels/operations.h"

namespace frugal {

/// In double precision and without vector instructions, so that every processor draws the same.
void run(const RandomNormal& op);

}  // namespace frugal
