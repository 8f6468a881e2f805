#include "tests/support/device_rows.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "kernels/cpu/device.h"

namespace frugal::kernels::table {
namespace {

/// Elements of an operand at most: a row of the table may square the columns.
constexpr int64_t most_elements = int64_t{1} << 19;

}  // namespace

std::vector<Setting> kernel_settings(DType type) {
  std::mt19937_64 random(test_seed());
  const auto up_to = [&](uint64_t n) { return static_cast<int64_t>(random() % n) + 1; };
  std::vector<Setting> all;
  all.push_back({type, up_to(70), up_to(70), random()});
  all.push_back({type, up_to(70), 8 * up_to(40), 0});  // whole packs have whole groups of bits
  if (std::getenv("FRUGAL_TEST_SMALL") != nullptr) return all;
  for (const int64_t cols : {1, 8, 65, 520, 2056}) all.push_back({type, up_to(5), cols, random()});
  return all;
}

std::vector<Setting> edge_settings(const Row& row, DType type) {
  std::vector<Setting> all;
  for (const int64_t cols : row.edges) all.push_back({type, 3, cols, test_seed()});
  return all;
}

void DeviceRows::everywhere(const std::function<std::vector<Setting>(DType)>& settings,
                            const Test& test) const {
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    for (Setting setting : settings(type)) {
      setting.rounds_before_adding = adding_ == Adding::rounds_before;
      SCOPED_TRACE(describe(row_, setting));
      const Case test_case = row_.build(setting);
      if (test_case.operands[0].shape.size() > most_elements) continue;
      test(test_case, random_values(test_case, test_seed()));
      if (HasFailure()) return;
    }
  }
}

void expect_float64(Device& device, const Case& test_case, const Values& before) {
  const Expected reference = expected(test_case, before);
  for (const int64_t shift : {0, 1}) {
    const Memory after = run(device, test_case, before, {.shift = shift});
    EXPECT_TRUE(agrees(test_case, reference, values_of(test_case, after)))
        << shift << " elements off the boundary";
  }
}

void expect_same_in_place(Device& device, const Case& test_case, const Values& before) {
  if (test_case.aliases.empty()) return;
  Memory apart = run(device, test_case, before);
  const Memory shared = run(device, test_case, before, {.share_aliases = true});
  for (const auto& [output, input] : test_case.aliases) apart[input] = apart[output];
  EXPECT_TRUE(apart == shared);  // printing them would take pages
}

void expect_cpu_masks(Device& device, const Case& test_case, const Values& before) {
  const auto is_mask = [](const Operand& o) {
    return o.type == DType::u8 && o.role == Role::output;
  };
  if (std::none_of(test_case.operands.begin(), test_case.operands.end(), is_mask)) return;
  const Memory ours = run(device, test_case, before);
  CpuDevice cpu(1);
  const Memory theirs = run(cpu, test_case, before);
  for (const Operand& operand : test_case.operands) {
    const bool same = !is_mask(operand) || ours.at(operand.name) == theirs.at(operand.name);
    EXPECT_TRUE(same) << operand.name;
  }
}

std::vector<std::string> kernel_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows())
    if (!candidate.name.starts_with("fused-attention")) names.push_back(candidate.name);
  return names;
}

std::vector<std::string> edge_rows() {
  std::vector<std::string> names;
  for (const Row& candidate : rows())
    if (!candidate.edges.empty()) names.push_back(candidate.name);
  return names;
}

}  // namespace frugal::kernels::table
