#include <gmock/gmock.h>

#include "harness/record_file.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Record, SurvivesJson) {
  const json once = to_json(testing::full_record());
  EXPECT_EQ(to_json(record_from_json(once, "test")), once);
  EXPECT_EQ(once["scale"], "1/4");
  EXPECT_EQ(once["metrics"]["forward_time"]["samples"], json({0.3, 0.1, 0.2}));
  EXPECT_EQ(once["metrics"]["forward_time"]["median"], 0.2);
  EXPECT_EQ(once["memory"]["peak"]["activation"], 11);
  EXPECT_TRUE(once["utilization"]["mfu"]["measured"]["value"].is_null());
}

TEST(Record, SaysWhatIsWrongWithJson) {
  const auto broken = [](const char* path, const json& value) {
    json record = to_json(testing::full_record());
    record[json::json_pointer(path)] = value;
    return [record] { return record_from_json(record, "file: line 3"); };
  };
  const auto says = [](const char* what) { return ThrowsMessage<InputError>(HasSubstr(what)); };
  EXPECT_THAT(broken("/schema", "frugal.record/2"), says("frugal.record/2"));
  EXPECT_THAT(broken("/status", "good"), says("oom"));
  EXPECT_THAT(broken("/scale", "4"), says("scale"));
  EXPECT_THAT(broken("/configuration/recompute", "all"), says("configuration.recompute"));
  EXPECT_THAT(broken("/memory/peak/activation", -1), says("memory.peak.activation"));
  EXPECT_THAT(broken("/metrics/forward_time/samples", json::array()), says("samples"));
  EXPECT_THAT(broken("/losses", {"x"}), says("file: line 3"));
}

TEST(Fingerprint, DependsOnAllThatDecidesTheResultAndNothingElse) {
  const Record record = testing::full_record();
  const auto changed = [&](auto change) {
    Record other = record;
    change(other);
    return fingerprint_of(other) != fingerprint_of(record);
  };
  EXPECT_TRUE(changed([](Record& r) { r.config.seed = 5; }));
  EXPECT_TRUE(changed([](Record& r) { r.config.model.dropout = 0.2; }));
  EXPECT_TRUE(changed([](Record& r) { r.config.sequence_parallel = false; }));
  EXPECT_TRUE(changed([](Record& r) { r.options["threads"] = "3"; }));
  EXPECT_TRUE(changed([](Record& r) { r.on = "virtual:x"; }));
  EXPECT_FALSE(changed([](Record& r) { r.ended = "later"; }));
  EXPECT_FALSE(changed([](Record& r) { r.losses.clear(); }));
}

TEST(Records, FindsTheLastOfACaseInItsSetting) {
  Records records;
  Record record = testing::full_record();
  for (const int64_t total : {1, 2}) {
    record.memory->peak_total = total;
    records.add(record);
  }
  record.scale = 8;
  records.add(record);
  const Setting cpu{Source::measured, "cpu", 4};
  EXPECT_EQ(records.find("paper/table", "a case", cpu)->memory->peak_total, 2);
  EXPECT_EQ(records.find("paper/table", "a case", {Source::measured, "cpu", 2}), nullptr);
  EXPECT_EQ(records.find("paper/table", "another", cpu), nullptr);
  EXPECT_EQ(records.settings("paper/table").size(), 2U);
  EXPECT_EQ(records.settings("paper/figure").size(), 0U);
}

TEST(RecordFile, AppendsAndReadsBack) {
  const testing::Folder folder;
  const std::string out = folder / "new/folder";
  { RecordFile(out).append(testing::full_record()); }
  const std::string first = testing::read(out + "/records.jsonl");
  RecordFile file(out);
  EXPECT_EQ(file.records().size(), 1U);
  EXPECT_FALSE(file.truncated());
  file.append(testing::full_record());
  EXPECT_EQ(testing::read(out + "/records.jsonl"), first + first);
}

TEST(RecordFile, ToleratesACutOffLineThenAndLater) {
  const testing::Folder folder;
  { RecordFile(folder / "").append(testing::full_record()); }
  const std::string line = testing::read(folder / "records.jsonl");
  std::ofstream(folder / "records.jsonl") << line << line.substr(0, line.size() / 2);
  {
    RecordFile file(folder / "");
    EXPECT_TRUE(file.truncated());
    EXPECT_EQ(file.records().size(), 1U);
    file.append(testing::full_record());
  }
  EXPECT_EQ(RecordFile(folder / "").records().size(), 2U);
}

TEST(RecordFile, RejectsALineThatIsJsonButNoRecord) {
  const testing::Folder folder;
  std::ofstream(folder / "records.jsonl") << "{\"schema\": \"other\"}\n";
  EXPECT_THAT([&] { RecordFile(folder / ""); }, ThrowsMessage<InputError>(HasSubstr("line 1")));
}

TEST(RecordFile, SetsAsideWithoutOverwriting) {
  const testing::Folder folder;
  RecordFile file(folder / "");
  EXPECT_EQ(file.set_aside(), "");
  file.append(testing::full_record());
  const std::string line = testing::read(folder / "records.jsonl");
  std::ofstream(folder / "records.1.jsonl") << "older";
  EXPECT_EQ(file.set_aside(), "records.2.jsonl");
  EXPECT_EQ(testing::read(folder / "records.1.jsonl"), "older");
  EXPECT_EQ(testing::read(folder / "records.2.jsonl"), line);
  EXPECT_TRUE(file.records().empty());
  file.append(testing::full_record());
  EXPECT_EQ(testing::read(folder / "records.jsonl"), line);
}

TEST(LastFinal, IgnoresInterruptedRecords) {
  Record record = testing::full_record();
  std::vector<Record> records{record};
  record.status = Status::interrupted;
  records.push_back(record);
  EXPECT_EQ(last_final(records, record), records.data());
  records.erase(records.begin());
  EXPECT_EQ(last_final(records, record), nullptr);
}

}  // namespace
}  // namespace frugal
