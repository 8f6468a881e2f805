#include "harness/record/google_benchmark.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

json run_of(const std::string& name, double time, const char* unit) {
  return {{"run_name", name}, {"run_type", "iteration"}, {"real_time", time}, {"time_unit", unit}};
}

json file_of(const std::vector<json>& runs) {
  const json environment = {{"processor", {{"model", "a processor"}}}};
  return {{"context",
           {{"date", "2022-05-10T12:00:00+00:00"},
            {"host_name", "somebody's"},
            {micro_context::environment, environment.dump()},
            {micro_context::program, "0123456789abcdef"}}},
          {"benchmarks", runs}};
}

std::vector<Record> records_of(const json& file) {
  const testing::Folder folder;
  std::ofstream(folder / "micro.json") << file;
  return read_google_benchmark(folder / "micro.json");
}

TEST(GoogleBenchmark, EachBenchmarkIsARecordAndEachRepetitionASample) {
  json reduced = run_of("reduce/2", 3, "us");
  reduced["bytes_per_second"] = 1e9;
  json mean = run_of("charge", 99, "ns");
  mean["run_type"] = "aggregate";
  const std::vector<Record> records =
      records_of(file_of({run_of("charge", 10, "ns"), run_of("charge", 12, "ns"), mean, reduced}));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].artifact, "bench/micro");
  EXPECT_EQ(records[0].case_id, "charge");
  EXPECT_THAT(records[0].samples(metric::time), ElementsAre(10 * 1e-9, 12 * 1e-9));
  EXPECT_THAT(records[1].samples(metric::time), ElementsAre(3 * 1e-6));
  EXPECT_THAT(records[1].samples("bytes_per_second"), ElementsAre(1e9));
  EXPECT_EQ(records[0].program, "0123456789abcdef");
  EXPECT_EQ(records[0].device, "a processor");
  EXPECT_EQ(to_json(records[0]).dump().find("somebody"), std::string::npos);
  EXPECT_EQ(google_benchmark_table(records).rows.size(), 2U);
}

TEST(GoogleBenchmark, CallsOfADeviceAreOfItsPlace) {
  json file = file_of({run_of("charge", 10, "ns"), run_of("device/launch", 12, "us")});
  file["context"][micro_context::devices] =
      json{{"on", "virtual:m"}, {"device", "a machine"}, {"environment", {{"gpus", {1}}}}}.dump();
  const std::vector<Record> records = records_of(file);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].on, "cpu");
  EXPECT_EQ(records[0].source, Source::measured);
  EXPECT_EQ(records[1].on, "virtual:m");
  EXPECT_EQ(records[1].source, Source::simulated);
  EXPECT_EQ(records[1].device, "a machine");
  EXPECT_EQ(json::parse(records[1].environment), json({{"gpus", {1}}}));
  EXPECT_THAT(records[1].command, ::testing::EndsWith(" --on=virtual:m"));
  file["context"][micro_context::devices] = R"({"on": "moon", "device": "", "environment": {}})";
  EXPECT_THAT([&] { records_of(file); }, ThrowsMessage<InputError>(HasSubstr("moon")));
}

TEST(GoogleBenchmark, AnotherProgramsFileIsRefused) {
  json other = file_of({run_of("charge", 10, "ns")});
  other["context"].erase(micro_context::program);
  EXPECT_THAT([&] { records_of(other); }, ThrowsMessage<InputError>(HasSubstr("frugal_micro")));
  EXPECT_THAT([] { records_of(file_of({run_of("charge", 10, "min")})); },
              ThrowsMessage<InputError>(HasSubstr("\"min\"; it must be ns, us, ms or s")));
  EXPECT_THAT([] { records_of(file_of({})); }, ThrowsMessage<InputError>(HasSubstr("has no run")));
}

}  // namespace
}  // namespace frugal::harness
