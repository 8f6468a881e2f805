// Processors next to a GPU, as Linux lists them: a machine of two NUMA nodes in a folder of files.
#include <gmock/gmock.h>

#include <fstream>

#include "harness/place/gpu_state.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Numa : public ::testing::Test {
 protected:
  std::filesystem::path sysfs() const { return folder_ / "sys"; }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((sysfs() / file).parent_path());
    std::ofstream(sysfs() / file) << text << "\n";
  }
  void node(int number, const std::string& processors) const {
    write("devices/system/node/node" + std::to_string(number) + "/cpulist", processors);
  }

 private:
  testing::Folder folder_;
};

TEST_F(Numa, NodesAndThatOfADeviceAreTheKernels) {
  EXPECT_THAT(numa_nodes(sysfs()), IsEmpty());
  node(0, "0-3,8-11");
  node(1, "4-7,12-15");
  EXPECT_THAT(numa_nodes(sysfs()), ElementsAre("0-3,8-11", "4-7,12-15"));
  write("bus/pci/devices/0000:1b:00.0/numa_node", "1");
  write("bus/pci/devices/0000:5c:00.0/numa_node", "-1");
  EXPECT_EQ(numa_node_of("0000:1b:00.0", sysfs()), 1);
  EXPECT_EQ(numa_node_of("0000:5c:00.0", sysfs()), std::nullopt);
  EXPECT_EQ(numa_node_of("0000:9d:00.0", sysfs()), std::nullopt);
}

const std::vector<std::string> two = {"0-3,8-11", "4-7,12"};

TEST(ProcessorsNear, AreThoseOfTheGpusNodeThatAreAllowed) {
  const Processors all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_THAT(processors_near(0, two, all), ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  EXPECT_THAT(processors_near(1, two, all), ElementsAre(4, 5, 6, 7, 12));
  EXPECT_THAT(processors_near(1, two, {3, 4, 12}), ElementsAre(4, 12));
}

TEST(ProcessorsNear, AreAllWhereThereIsOneNode) {
  EXPECT_THAT(processors_near(std::nullopt, {"0-1"}, {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(processors_near(std::nullopt, {}, {1}), ElementsAre(1));
}

TEST(ProcessorsNear, AreRefusedWhereNobodyCanSay) {
  const auto message = [](std::optional<int> node, const Processors& allowed) {
    return message_of<InputError>([&] { processors_near(node, two, allowed); });
  };
  EXPECT_THAT(message(std::nullopt, {0, 4}),
              HasSubstr("do not say to which of this machine's NUMA"));
  EXPECT_THAT(message(2, {0, 4}), HasSubstr("do not say to which of this machine's NUMA"));
  EXPECT_THAT(message(1, {0, 1}),
              HasSubstr("next to the processors 4-7,12, of which this process"));
}

}  // namespace
}  // namespace frugal::harness
