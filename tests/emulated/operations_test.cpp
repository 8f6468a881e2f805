// Every row by the CUDA kernels, executed on the processor: against float64, in place, and with any
// order of threads and blocks.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cpu/device.h"
#include "tests/emulator/device.h"
#include "tests/support/run_case.h"

namespace frugal::table {
namespace {

/// Of an operand: a row of the table may square the columns.
constexpr int64_t most_elements = int64_t{1} << 19;

constexpr std::array types = {DType::f32, DType::bf16, DType::f64};

/// Columns around packs of eight and warps, more than a block's threads have at a time, and one
/// pair drawn anew in every run.
std::vector<Setting> settings(DType type) {
  std::mt19937_64 random(test_seed());
  const auto up_to = [&](uint64_t n) { return static_cast<int64_t>(random() % n) + 1; };
  std::vector<Setting> all;
  for (const int64_t cols : {1, 8, 65, 520, 2056}) all.push_back({type, up_to(5), cols, random()});
  all.push_back({type, up_to(70), up_to(70), random()});
  all.push_back({type, up_to(70), 8 * up_to(40), 0});  // whole packs have whole groups of bits
  return all;
}

class Emulated : public ::testing::TestWithParam<std::string> {
 protected:
  const Row& row_ = row(GetParam());

  template <class Test>
  void everywhere(Test test) const {
    for (const DType type : types) {
      for (const Setting& setting : settings(type)) {
        SCOPED_TRACE(describe(row_, setting));
        const Case test_case = row_.build(setting);
        if (test_case.operands[0].shape.size() > most_elements) continue;
        test(test_case, random_values(test_case, test_seed()));
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(Emulated, AgreesWithFloat64) {
  everywhere([](const Case& test_case, const Values& before) {
    const Expected reference = expected(test_case, before);
    const auto device = make_emulated_device(3, test_seed());
    for (const int64_t shift : {0, 1}) {
      const Memory after = run(*device, test_case, before, {.shift = shift});
      EXPECT_TRUE(agrees(test_case, reference, values_of(test_case, after)))
          << shift << " elements off the boundary";
    }
  });
}

TEST_P(Emulated, IsTheSameInPlace) {
  if (row_.build({DType::f32, 1, 1}).aliases.empty()) return;
  everywhere([](const Case& test_case, const Values& before) {
    const auto device = make_emulated_device(3, test_seed());
    Memory apart = run(*device, test_case, before);
    const Memory shared = run(*device, test_case, before, {.share_aliases = true});
    for (const auto& [output, input] : test_case.aliases) apart[input] = apart[output];
    EXPECT_EQ(apart, shared);
  });
}

/// What differs would be a barrier that is missing.
TEST_P(Emulated, HasTheSameBitsInAnyOrderOfThreads) {
  everywhere([](const Case& test_case, const Values& before) {
    const Memory first = run(*make_emulated_device(3, 1), test_case, before);
    EXPECT_EQ(first, run(*make_emulated_device(3, test_seed()), test_case, before));
  });
}

/// Masks and random numbers are the CPU's, bit for bit.
TEST_P(Emulated, MasksAreTheCpusOwn) {
  const Case shape = row_.build({DType::f32, 1, 1});
  const auto is_mask = [](const Operand& o) {
    return o.type == DType::u8 && o.role == Role::output;
  };
  if (std::none_of(shape.operands.begin(), shape.operands.end(), is_mask)) return;
  everywhere([&](const Case& test_case, const Values& before) {
    const auto emulated = make_emulated_device(3, test_seed());
    const Memory ours = run(*emulated, test_case, before);
    CpuDevice cpu(1);
    const Memory theirs = run(cpu, test_case, before);
    for (const Operand& operand : test_case.operands) {
      if (!is_mask(operand)) continue;
      EXPECT_EQ(ours.at(operand.name), theirs.at(operand.name)) << operand.name;
    }
  });
}

std::vector<std::string> all_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows()) names.push_back(candidate.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, Emulated, ::testing::ValuesIn(all_rows()), test_name);

}  // namespace
}  // namespace frugal::table
