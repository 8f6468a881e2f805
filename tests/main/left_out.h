#pragma once
#include <cstdint>

/// Leaves tests out of runs under a sanitizer, where they would take minutes and find nothing that
/// others do not. A line stands beside the tests that it is of, and says why:
///
///   FRUGAL_LEFT_OUT(any, "*PipelineOracle.*_f64", "float64 beside float32");
///
/// The first is which sanitizer: any, address or thread. The second matches whole names, with * and
/// ?, as
/// --gtest_filter does. A run whose filter was chosen has what that says.
#define FRUGAL_LEFT_OUT(sanitizer, names, reason) \
  FRUGAL_LEFT_OUT_AS(__COUNTER__, sanitizer, names, reason)
#define FRUGAL_LEFT_OUT_AS(number, ...) FRUGAL_LEFT_OUT_NAMED(number, __VA_ARGS__)
#define FRUGAL_LEFT_OUT_NAMED(number, sanitizer, names, reason) \
  [[maybe_unused]] const bool left_out_##number =               \
      ::frugal::testing::leave_out({::frugal::testing::Sanitizer::sanitizer, names, reason})

namespace frugal::testing {

enum class Sanitizer : uint8_t { any, address, thread };

struct LeftOut {
  Sanitizer sanitizer;
  const char* names;
  const char* reason;
};

bool leave_out(const LeftOut& tests);

/// What the main function of a test program does.
int run_tests(int argc, char** argv);

}  // namespace frugal::testing
