#include "harness/target.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal {
namespace {

using nlohmann::json;
using ::testing::MatchesRegex;

class MachineFile : public ::testing::Test {
 protected:
  /// The target of a copy of the papers' machine in a file.
  template <class Change>
  Target copy(const Change& change) const {
    json machine = json::parse(testing::read(FRUGAL_SOURCE_DIR "/hardware/a100-selene.json"));
    change(machine);
    std::ofstream(folder_ / "machine.json") << machine.dump();
    return {"virtual", 1, folder_ / "machine.json"};
  }

  testing::Folder folder_;
  const Target own_{"virtual", 1};
};

TEST_F(MachineFile, WithTheValuesOfOursIsOurs) {
  const Target same = copy([](json& m) { m["device"]["flops_bf16"]["source"] = "another"; });
  EXPECT_EQ(own_.on(), "virtual:a100-selene");
  EXPECT_EQ(same.on(), own_.on());
  EXPECT_EQ(same.machine_hash(), own_.machine_hash());
}

TEST_F(MachineFile, WithOtherValuesIsNotCalledLikeOurs) {
  const Target peak = copy([](json& m) { m["device"]["flops_bf16"]["value"] = 1e14; });
  EXPECT_THAT(peak.on(), MatchesRegex("virtual:a100-selene#[0-9a-f]{8}"));
  const Target tiles = copy([](json& m) { m["device"]["tiles"]["value"] = {{64, 64}}; });
  EXPECT_THAT(tiles.on(), MatchesRegex("virtual:a100-selene#[0-9a-f]{8}"));
  const Target named = copy([](json& m) { m["name"] = "mine"; });
  EXPECT_THAT(named.on(), MatchesRegex("virtual:mine#[0-9a-f]{8}"));
  EXPECT_NE(peak.on(), tiles.on());
  EXPECT_NE(peak.machine_hash(), own_.machine_hash());
}

TEST(Target, HasTheHashOfADataSheetOnly) {
  EXPECT_EQ(Target("cpu", 1).machine_hash(), "");
  EXPECT_EQ(Target("cpu", 1, "a100-selene").machine_hash(), Target("virtual", 1).machine_hash());
  EXPECT_EQ(Target("cpu", 1, "a100-selene").on(), "cpu");
}

TEST(DeviceKind, ByTheFirstWord) {
  EXPECT_EQ(device_kind("cpu"), DeviceKind::cpu);
  EXPECT_EQ(device_kind("virtual"), DeviceKind::simulated);
  EXPECT_EQ(device_kind("virtual:x"), DeviceKind::simulated);
  for (const char* bad : {"", "cpu:x", "cuda:0", "virtually", "gpu"})
    EXPECT_THROW(device_kind(bad), InputError) << bad;
  EXPECT_EQ(source_of(DeviceKind::cuda), Source::measured);
}

}  // namespace
}  // namespace frugal
