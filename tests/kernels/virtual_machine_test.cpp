#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/virtual/machine.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"
#include "tests/support/source_dir.h"

namespace frugal::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Body>
std::string input_error(Body body) {
  return message_of<InputError>(body);
}

std::string selene_text() {
  return read_text(testing::source_dir() + "/hardware/a100-selene.json");
}
/// The error after one change of a good file.
std::string error_after(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json json = nlohmann::json::parse(selene_text());
  change(json);
  return input_error([&] { parse_machine(json.dump(), "m.json"); });
}

TEST(MachineFile, SeleneIsTheDataSheets) {
  const Machine m = find_machine("a100-selene");
  EXPECT_EQ(m.peak_flops(DType::bf16), 312e12);
  EXPECT_EQ(m.memory_bandwidth, 2039e9);
  EXPECT_EQ(m.memory_capacity, int64_t{80} << 30);
  EXPECT_EQ(m.multiprocessors, 108);
  EXPECT_EQ(m.devices_per_node, 8);
  int fitted = 0;
  for (const auto& parameter : m.parameters) fitted += parameter.source.starts_with("fitted:");
  EXPECT_EQ(fitted, 3) << "docs/cost-model.md says that three parameters are fitted";
}

TEST(MachineFile, IsReadWithOtherValues) {
  const Machine file = find_machine("a100-selene");
  const std::map<std::string, double> values{{"device.memory_fraction", 0.5},
                                             {"network.devices_per_node", 7}};
  const Machine m = find_machine("a100-selene", values);
  EXPECT_EQ(m.memory_fraction, 0.5);
  EXPECT_EQ(m.devices_per_node, 7);
  EXPECT_EQ(m.gemm_fraction, file.gemm_fraction);
  EXPECT_EQ(
      find_machine(testing::source_dir() + "/hardware/a100-selene.json", values).devices_per_node,
      7);
  for (const auto& parameter : m.parameters) {
    if (values.contains(parameter.key)) {
      EXPECT_EQ(parameter.value, values.at(parameter.key));
    }
    const std::set<std::string> whole{
        "device.memory_capacity",  "device.multiprocessors",
        "device.cublas_workspace", "network.devices_per_node",
        "network.host_memory",     "device.transformer_engine_workspace"};
    EXPECT_EQ(parameter.whole, whole.contains(parameter.key)) << parameter.key;
    const bool part =
        parameter.unit == "1" && !parameter.whole && parameter.key != "device.compute_capability";
    EXPECT_EQ(parameter.most == 1, part) << parameter.key;
  }
  const auto with = [](const char* key, double value) {
    return input_error([&] { find_machine("a100-selene", {{key, value}}); });
  };
  EXPECT_THAT(with("device.memory_fraction", 1.5), HasSubstr("above 0 and at most 1"));
  EXPECT_THAT(with("network.devices_per_node", 7.5), HasSubstr("must be a whole number"));
  EXPECT_THAT(with("device.speed", 1), HasSubstr("device.speed"));
  EXPECT_THAT(with("device.tiles", 1), HasSubstr("device.tiles"));
  EXPECT_THAT(with("speed", 1), HasSubstr("speed"));
}

/// Number of values that are carried over from a100-selene, which they must equal.
int carried_over(const Machine& machine) {
  std::map<std::string, double> selene;
  for (const auto& parameter : find_machine("a100-selene").parameters)
    selene[parameter.key] = parameter.value;
  int carried = 0;
  for (const auto& parameter : machine.parameters) {
    if (!parameter.source.starts_with("carried over from a100-selene") &&
        !parameter.source.starts_with("carried over from h100-dgx: carried over from a100-selene"))
      continue;
    EXPECT_EQ(parameter.value, selene.at(parameter.key)) << parameter.key;
    ++carried;
  }
  return carried;
}

TEST(MachineFile, OthersAreTheirDataSheetsAndSayWhatIsCarriedOver) {
  const Machine h200 = find_machine("h200-hgx"), v100 = find_machine("v100-p3-16xlarge");
  EXPECT_EQ(h200.peak_flops(DType::bf16), 989.4e12);
  EXPECT_EQ(h200.memory_capacity, int64_t{143771} << 20);
  EXPECT_EQ(h200.devices_per_port, 1) << "a port each, where nothing else is said";
  // An A100's bytes per clock, at the clock with which 132 multiprocessors have that peak: enough
  // for the best published product with tiles of 256 x 128.
  EXPECT_NEAR(h200.l2_bandwidth, 5120 * (989.4e12 / 132 / 4096), 5e9);
  EXPECT_GE(h200.l2_bandwidth * (2 * 256 * 128) / (2 * (256 + 128)),
            h200.flops_bf16 * h200.gemm_sustained);
  EXPECT_EQ(carried_over(h200), 10);
  EXPECT_EQ(carried_over(find_machine("b200-dgx")), 12);
  EXPECT_EQ(v100.network_bandwidth * static_cast<double>(v100.devices_per_node), 25e9 / 8);
  EXPECT_EQ(v100.devices_per_port, v100.devices_per_node) << "which share the node's network";
  EXPECT_EQ(carried_over(v100), 7);
}

TEST(MachineFile, SaysWhatIsCalibrated) {
  EXPECT_THAT(find_machine("a100-selene").calibration, HasSubstr("fitted to table 4"));
  EXPECT_THAT(find_machine("v100-p3-16xlarge").calibration, HasSubstr("launch_overhead fitted"));
  EXPECT_THAT(find_machine("rtx-4090").calibration, ::testing::StartsWith("not calibrated"));
  nlohmann::json json = nlohmann::json::parse(selene_text());
  json.erase("calibration");
  EXPECT_EQ(parse_machine(json.dump(), "m.json").calibration, "");
  EXPECT_THAT(error_after([](auto& j) { j["calibration"] = 1; }), HasSubstr("calibration is 1"));
}

TEST(MachineFile, HasRatesOfGroupsThatNoOtherMachineTakes) {
  EXPECT_EQ(find_machine("a100-pcie").groups.size(), 5U);
  nlohmann::json other = {
      {"schema", "frugal.machine/1"}, {"name", "m"}, {"base", "a100-pcie"}, {"description", "d"}};
  EXPECT_TRUE(parse_machine(other.dump(), "m.json").groups.empty());
  const auto with = [](const char* key, const nlohmann::json& value) {
    return error_after([&](auto& j) {
      nlohmann::json one = {{"ranks", 2},
                            {"all_reduce", 1.0},
                            {"all_gather", 1.0},
                            {"reduce_scatter", 1.0},
                            {"source", "a test"}};
      one[key] = value;
      j["network"]["groups"] = nlohmann::json::array({one});
    });
  };
  EXPECT_THAT(with("ranks", 1), HasSubstr("at least 2"));
  EXPECT_THAT(with("apart", 0), HasSubstr("at least 1"));
  EXPECT_THAT(with("all_gather", 0.0), HasSubstr("above 0"));
  EXPECT_THAT(with("source", ""), HasSubstr("say where"));
  EXPECT_THAT(error_after([](auto& j) {
                j["network"]["collective_multiprocessors"] = {
                    {"value", 108}, {"unit", "1"}, {"source", "a test"}};
              }),
              HasSubstr("below the 108"));
}

TEST(MachineFile, IsFoundByTheNameOfItsGpu) {
  EXPECT_EQ(machine_of_device("NVIDIA H200").value().name, "h200-hgx");
  EXPECT_EQ(machine_of_device("NVIDIA B200").value().name, "b200-dgx");
  EXPECT_EQ(machine_of_device("NVIDIA A100-SXM4-80GB").value().name, "a100-selene");
  EXPECT_EQ(machine_of_device("Tesla V100-SXM2-16GB").value().name, "v100-p3-16xlarge");
  for (const char* other : {"", "H200", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 3090"})
    EXPECT_FALSE(machine_of_device(other)) << other;
}

TEST(MachineFile, KeepsOtherPublishedValues) {
  const auto others = [](const std::function<void(nlohmann::json&)>& change) {
    return [change](nlohmann::json& j) {
      auto& all = j["device"]["memory_fraction"]["others"];
      all = nlohmann::json::array({{{"value", 0.5}, {"source", "a test"}}});
      change(all[0]);
    };
  };
  nlohmann::json json = nlohmann::json::parse(selene_text());
  others([](auto&) {})(json);
  for (const auto& parameter : parse_machine(json.dump(), "m.json").parameters) {
    if (parameter.key != "device.memory_fraction") continue;
    ASSERT_EQ(parameter.others.size(), 1U);
    EXPECT_EQ(parameter.others[0].value, 0.5);
    EXPECT_EQ(parameter.others[0].source, "a test");
  }
  EXPECT_THAT(error_after(others([](auto& other) { other["value"] = 1.5; })),
              HasSubstr("device.memory_fraction.others"));
  EXPECT_THAT(error_after(others([](auto& other) { other["source"] = ""; })),
              HasSubstr("source is empty"));
  EXPECT_THAT(error_after(others([](auto& other) { other["unit"] = "1"; })),
              HasSubstr("unit is not a known key"));
}

TEST(MachineFile, UnknownNamesGetTheNearest) {
  EXPECT_THAT(input_error([] { find_machine("a100-selen"); }),
              AllOf(HasSubstr("\"a100-selen\""), HasSubstr("did you mean a100-selene")));
  EXPECT_THAT(input_error([] { find_machine("quite-another"); }), HasSubstr("known are"));
  EXPECT_THAT(input_error([] { find_machine("nowhere/m.json"); }),
              AllOf(HasSubstr("nowhere/m.json: cannot be read"), HasSubstr("No such file")));
}

TEST(MachineFile, WrongValuesNameTheirKey) {
  struct Mistake {
    const char* path;
    nlohmann::json value;  ///< null: the key is taken out
    const char* message;
  };
  const Mistake mistakes[] = {
      {"/device/l2_bandwidth", {}, "m.json: device.l2_bandwidth is missing"},
      {"/device/gemm_fraction/value", 1.5,
       "fraction.value is 1.5; it must be above 0 and at most 1"},
      {"/device/multiprocessors/value", 10.5, "value is 10.5; it must be a whole number"},
      {"/network/link_bandwidth/unit", "GB/s", "bandwidth.unit is \"GB/s\"; it must be \"B/s\""},
      {"/network/link_latency/value", "fast", "value is \"fast\" (string); it must be a number"},
      {"/network/link_latency/source", "", "network.link_latency.source is empty"},
      {"/device/tiles/value", {{128, -1}}, "device.tiles.value must be"},
      {"/network/collective_share/value", 1, "collective_share.value is 1; it must be below 1"},
      {"/network/compute_share/value", 1, "compute_share.value is 1; it must be below 1"},
      {"/network/lone_fraction/value", 2, "lone_fraction.value is 2; it must be above 0"},
      {"/network/link_latency", {}, "network.link_latency is missing"},
      {"/schema", "frugal.machine/2", "schema is \"frugal.machine/2\"; it must be"},
      {"/device/memory_capasity", 1, "is not a known key; did you mean memory_capacity?"},
      {"/device_names", "NVIDIA H200", "device_names is \"NVIDIA H200\""},
      {"/device", 3, "device is 3 (number); it must be an object"}};
  for (const Mistake& mistake : mistakes) {
    const nlohmann::json::json_pointer path(mistake.path);
    EXPECT_THAT(error_after([&](nlohmann::json& json) {
                  if (mistake.value.is_null())
                    json[path.parent_pointer()].erase(path.back());
                  else
                    json[path] = mistake.value;
                }),
                HasSubstr(mistake.message));
  }
}

/// Machines in files of a folder.
class MachineBase : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  /// A machine of this name with this base, and with what else is given.
  std::string file(const std::string& name, const std::string& base,
                   nlohmann::json with = nlohmann::json::object()) {
    with["schema"] = "frugal.machine/1";
    with["name"] = name;
    with["description"] = "of a test";
    with["base"] = base;
    std::ofstream(path(name + ".json")) << with.dump();
    return path(name + ".json");
  }
  static nlohmann::json number(double value, const char* unit) {
    return {{"value", value}, {"unit", unit}, {"source", "a test"}};
  }
  std::string error(const std::string& file) {
    return input_error([&] { (void)find_machine(file); });
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

TEST_F(MachineBase, GivesRatesOfAttentionAsSharesOfThePeak) {
  const Machine base = find_machine("a100-selene");
  const Machine same = find_machine(file("same", "a100-selene", nlohmann::json::object()));
  const Machine half =
      find_machine(file("half", "a100-selene",
                        {{"device", {{"flops_bf16", number(base.flops_bf16 / 2, "FLOP/s")}}}}));
  ASSERT_EQ(half.attention.size(), base.attention.size());
  for (size_t i = 0; i < base.attention.size(); ++i) {
    EXPECT_EQ(same.attention[i].forward, base.attention[i].forward);
    EXPECT_EQ(same.attention[i].source, base.attention[i].source);
    EXPECT_DOUBLE_EQ(half.attention[i].forward[0] * 2, base.attention[i].forward[0]);
    EXPECT_DOUBLE_EQ(half.attention[i].backward.back() * 2, base.attention[i].backward.back());
    EXPECT_EQ(half.attention[i].source,
              "carried over from a100-selene, as a share of the peak: " + base.attention[i].source);
  }
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

TEST(JsonText, MalformedAndTruncatedSayWhere) {
  EXPECT_THAT(input_error([] { parse_json("{\n  \"a\": 1,\n  \"b\": }\n", "x.json"); }),
              HasSubstr("x.json:3:8: not valid JSON: unexpected '}'"));
  EXPECT_THAT(input_error([] { parse_json("{\n  \"a\": [1,", "x.json"); }),
              AllOf(HasSubstr("x.json:2:"), HasSubstr("truncated")));
  EXPECT_THAT(input_error([] { parse_json("", "x.json"); }), HasSubstr("x.json:1:1: "));
  EXPECT_THAT(input_error([] { load_json(testing::source_dir()); }), HasSubstr("is a folder"));
  const std::string text = selene_text();
  for (size_t length = 0; length + 2 < text.size(); length += 97)
    EXPECT_THAT(input_error([&] { parse_machine(text.substr(0, length), "cut.json"); }),
                HasSubstr("cut.json:"));
}

TEST(JsonText, TypedAccess) {
  const auto json =
      parse_json(R"({"n": 7, "x": 1.5, "s": "a", "l": ["a", "b"], "big": 18446744073709551615,
                                   "o": {"k": true}, "rows": [{"v": 1}, 2]})",
                 "t.json");
  const JsonObject root(json, "t.json");
  EXPECT_EQ(root.require<int64_t>("n"), 7);
  EXPECT_EQ(root.require<double>("n"), 7);
  EXPECT_EQ(root.require<std::string>("s"), "a");
  EXPECT_EQ(root.require<std::vector<std::string>>("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(root.object("o").require<bool>("k"));
  EXPECT_EQ(root.optional<double>("absent", 2.5), 2.5);
  EXPECT_EQ(root.optional<double>("x", 2.5), 1.5);
  EXPECT_EQ(root.integer("n", 1, 7), 7);
  EXPECT_THAT(input_error([&] { (void)root.optional<double>("s", 1); }),
              HasSubstr("t.json: s is \"a\" (string); it must be a number"));
  EXPECT_THAT(input_error([&] { (void)root.require<int64_t>("x"); }),
              HasSubstr("x is 1.5 (number); it must be a whole number"));
  EXPECT_THAT(input_error([&] { (void)root.require<int64_t>("big"); }), HasSubstr("big is"));
  EXPECT_THAT(input_error([&] { (void)root.integer("n", 8, 9); }),
              HasSubstr("n is 7; it must be at least 8 and at most 9"));
  EXPECT_THAT(input_error([&] { (void)root.number("x", 2); }),
              HasSubstr("x is 1.5; it must be at least 2"));
  EXPECT_THAT(input_error([&] { (void)root.object("o").require<bool>("q"); }),
              HasSubstr("t.json: o.q is missing"));
  EXPECT_THAT(input_error([&] { (void)root.objects("rows"); }), HasSubstr("rows[1] is 2 (number)"));
}

}  // namespace
}  // namespace frugal::kernels
