#pragma once
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"

/// Skips the test that calls it where there is no GPU, and says why there is none.
#define FRUGAL_NEEDS_GPU() \
  if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason
