// The CPU device apart from its kernels: memory, its limit, instructions, copies.
#include <gtest/gtest.h>

#include <random>

#include "kernels/table/operation_table.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/message_of.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels {
namespace {

constexpr int64_t mebibyte = int64_t{1} << 20;

class CpuMemory : public ::testing::Test {
 protected:
  const ::testing::ScopedTrace seed_{__FILE__, __LINE__, table::test_seed()};
  std::mt19937_64 random_{table::test_seed()};
};

TEST_F(CpuMemory, BeyondTheCapacityIsRefusedWithWhatIsMissing) {
  CpuDevice device(1, 10 * mebibyte);
  void* const most = device.allocate(9 * mebibyte);
  try {
    device.allocate(mebibyte + 5);
    FAIL() << "allocated more than there is";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested, mebibyte + 5);
    EXPECT_EQ(error.in_use, 9 * mebibyte);
    EXPECT_EQ(error.capacity, 10 * mebibyte);
    EXPECT_EQ(error.missing(), 5);
  }
  void* const rest = device.allocate(mebibyte);  // exactly what is left; the failure took nothing
  EXPECT_THROW(device.allocate(1), OutOfMemory);
  device.deallocate(most, 9 * mebibyte);
  void* const again = device.allocate(9 * mebibyte);
  device.deallocate(rest, mebibyte);
  device.deallocate(again, 9 * mebibyte);
}

/// Blocks that were given back must not count, whatever their sizes were.
TEST_F(CpuMemory, OfAnySizesComesBackWhole) {
  constexpr int64_t capacity = 4 * mebibyte;
  CpuDevice device(1, capacity);
  for (int i = 0; i < 300; ++i) {
    const auto bytes = static_cast<int64_t>(random_() % capacity) + 1;
    void* const part = device.allocate(bytes);
    void* const rest = device.allocate(capacity - bytes);
    EXPECT_THROW(device.allocate(1), OutOfMemory);
    device.deallocate(part, bytes);
    device.deallocate(rest, capacity - bytes);
  }
}

TEST_F(CpuMemory, IsCopiedToAndFromTheHost) {
  CpuDevice device(1);
  std::vector<double> values(1001), back(1001);
  for (double& value : values) value = std::normal_distribution<double>()(random_);
  const View view(device.allocate(8008), DType::f64, {7, 143});
  device.copy_from_host(view, values.data());
  device.copy_to_host(back.data(), view);
  EXPECT_EQ(values, back);
  device.deallocate(view.data, view.bytes());
}

TEST(CpuDevice, RefusesThreadsAndInstructionsThatAreNotThere) {
  EXPECT_THROW(CpuDevice(0), InputError);
  const CpuLevel scope("mmx");
  const std::string said = message_of<InputError>([] { CpuDevice(1); });
  for (const char* part : {"FRUGAL_SIMD", "mmx", "baseline"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
}

TEST(CpuDevice, SaysWhatItIs) {
  CpuDevice device(1);
  EXPECT_EQ(device.name(), "cpu");
  EXPECT_TRUE(device.backed());
  const double before = device.now();
  EXPECT_GE(device.record(Stream::compute).time, before);
}

}  // namespace
}  // namespace frugal::kernels
