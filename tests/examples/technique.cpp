// Runs the tests of the technique that technique.patch adds, and prints its flag and help.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config.h"
#include "engine/options/fields.h"

int main(int argc, char** argv) {
  using frugal::engine::RunConfig;
  for (const auto& field : frugal::engine::fields_of<RunConfig>())
    if (field.key == "partition_activations") fmt::print("{} {}\n", field.flag, field.help);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
