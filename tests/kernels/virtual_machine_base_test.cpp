// What a machine's file takes of its base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"

namespace frugal::kernels {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Machines in files of a folder.
class MachineBase : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  /// A machine of this name with this base, and with what else is given.
  std::string file(const std::string& name, const std::string& base, json with = json::object()) {
    with["schema"] = "frugal.machine/1";
    with["name"] = name;
    with["description"] = "of a test";
    with["base"] = base;
    std::ofstream(path(name + ".json")) << with.dump();
    return path(name + ".json");
  }
  static json number(double value, const char* unit) {
    return {{"value", value}, {"unit", unit}, {"source", "a test"}};
  }
  std::string error(const std::string& file) {
    return message_of<InputError>([&] { (void)find_machine(file); });
  }

 private:
  const testing::Folder folder_;
};

std::string source_of(const Machine& machine, const std::string& key) {
  for (const Machine::Parameter& p : machine.parameters)
    if (p.key == key) return p.source;
  return "";
}

TEST_F(MachineBase, IsTakenButForWhatIsGiven) {
  const Machine base = find_machine("a100-selene");
  const Machine m = find_machine(file("mine", "a100-selene",
                                      {{"device", {{"memory_bandwidth", number(3e12, "B/s")}}},
                                       {"network", {{"devices_per_port", number(4, "1")}}}}));
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.memory_bandwidth, 3e12);
  EXPECT_EQ(m.devices_per_port, 4) << "which the base leaves out";
  EXPECT_EQ(source_of(m, "device.memory_bandwidth"), "a test");
  EXPECT_EQ(m.flops_bf16, base.flops_bf16);
  EXPECT_EQ(m.network_latency, base.network_latency);
  EXPECT_EQ(m.tiles.size(), base.tiles.size());
  EXPECT_EQ(source_of(m, "device.flops_bf16"),
            "carried over from a100-selene: " + source_of(base, "device.flops_bf16"));
  for (const Machine::Parameter& p : m.parameters)
    EXPECT_TRUE(p.others.empty()) << p.key << ": they were published of the base";
  EXPECT_TRUE(m.device_names.empty()) << "a GPU has one data sheet";
  EXPECT_EQ(m.calibration, "as a100-selene: " + base.calibration);
  EXPECT_EQ(find_machine(path("mine.json"), {{"device.flops_bf16", 1e12}}).flops_bf16, 1e12);
}

TEST_F(MachineBase, MayHaveABaseAndBeAFileBesideIt) {
  file("first", "a100-selene", {{"device", {{"multiprocessors", number(64, "1")}}}});
  const Machine m = find_machine(file("second", "first.json"));
  EXPECT_EQ(m.multiprocessors, 64);
  EXPECT_THAT(source_of(m, "network.link_bandwidth"),
              StartsWith("carried over from first: carried over from a100-selene: NVIDIA"));
}

TEST_F(MachineBase, IsNotAMachineItself) {
  EXPECT_THAT(error(file("alone", "alone.json")),
              HasSubstr("alone.json: base makes a machine its"));
  file("second", "third.json");
  file("third", "first.json");
  EXPECT_THAT(error(file("first", "second.json")),
              AllOf(HasSubstr("third.json: base makes a machine its own base: "),
                    HasSubstr("first.json -> " + path("second.json") + " -> " + path("third.json") +
                              " -> " + path("first.json"))));
}

TEST_F(MachineBase, MistakesSayInWhichFile) {
  EXPECT_THAT(error(file("mine", "a100-selen")),
              AllOf(StartsWith(path("mine.json") + ": base is \"a100-selen\": no machine"),
                    HasSubstr("did you mean a100-selene")));
  EXPECT_THAT(error(file("mine", "absent.json")),
              AllOf(StartsWith(path("mine.json") + ": base is \"absent.json\": "),
                    HasSubstr(path("absent.json") + ": cannot be read")));
  file("wrong", "a100-selene", {{"device", {{"multiprocessors", number(0.5, "1")}}}});
  EXPECT_THAT(error(file("mine", "wrong.json")),
              StartsWith(path("wrong.json") + ": device.multiprocessors.value is 0.5"));
  EXPECT_THAT(error(file("mine", "a100-selene", {{"device", 3}})),
              StartsWith(path("mine.json") + ": device is 3"));
}

}  // namespace
}  // namespace frugal::kernels
