#include <gmock/gmock.h>

#include "harness/record/record_file.h"
#include "harness/report/measurement.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Record, SurvivesJson) {
  const json once = to_json(testing::full_record());
  EXPECT_EQ(to_json(record_from_json(once, "test")), once);
  EXPECT_EQ(once["scale"], "1/4");
  EXPECT_EQ(once["metrics"]["forward_time"]["samples"], json({0.3, 0.1, 0.2}));
  EXPECT_EQ(once["metrics"]["forward_time"]["median"], 0.2);
  EXPECT_EQ(once["findings"], json({{"fastest", "t2 w4"}}));
  EXPECT_EQ(once["memory"]["peak"]["activation"], 11);
  EXPECT_TRUE(once["utilization"]["mfu"]["measured"]["value"].is_null());
}

Record lone_record() {
  Record record = testing::full_record();
  record.on = "cuda";
  record.device = "a GPU; one rank of 8; communication modelled on m";
  record.modelled = {"m", hash_of("m")};
  return record;
}

TEST(Record, SaysWhetherItsCommunicationWasReal) {
  EXPECT_EQ(to_json(testing::full_record())["communication"], json({{"kind", "real"}}));
  const json lone = to_json(lone_record());
  EXPECT_EQ(lone["communication"]["kind"], "modelled");
  EXPECT_EQ(lone["communication"]["machine"], "m");
  EXPECT_EQ(lone["communication"]["machine_hash"], hash_of("m"));
  EXPECT_THAT(lone["communication"]["left_out"].get<std::string>(), HasSubstr("losses"));
  EXPECT_EQ(to_json(record_from_json(lone, "test")), lone);
  Record simulated = testing::full_record();
  simulated.source = Source::simulated;
  EXPECT_TRUE(to_json(simulated)["communication"].is_null());
}

TEST(Record, SaysWhereThePartsOfAStepThatWasPutTogetherAreFrom) {
  EXPECT_FALSE(to_json(testing::full_record()).contains("lone_stages"));
  Record record = lone_record();
  record.lone_stages = LoneStages{{0, 1, 7}};
  record.config.pipeline_parallel = 8;
  EXPECT_EQ(to_json(record)["lone_stages"]["parts"], json::object()) << "of memory alone";
  for (const LoneStages::Part& part : LoneStages::parts) record.add_sample(part.metric, "s", 0.5);
  const json once = to_json(record);
  EXPECT_EQ(once["lone_stages"]["stages"], json({0, 1, 7}));
  EXPECT_EQ(once["lone_stages"]["parts"], json({{"computation_time", "measured"},
                                                {"communication_time", "modelled"},
                                                {"bubble_time", "walked"}}));
  EXPECT_EQ(to_json(record_from_json(once, "test")), once);
  const std::string table = measurement_table(record).text();
  EXPECT_THAT(table, ContainsRegex("stages that ran +0, 1, 7 +of 8"));
  EXPECT_THAT(table, ContainsRegex("bubble_time +0.5 +s, walked"));
  EXPECT_THAT(table, ContainsRegex("forward_time +0.2 +s[^\n]*median of 3\n")) << "no part";
  record.source = Source::simulated;
  const json simulated = to_json(record);
  EXPECT_EQ(simulated["lone_stages"]["parts"]["computation_time"], "virtual");
  EXPECT_EQ(simulated["lone_stages"]["parts"]["bubble_time"], "walked");
  EXPECT_EQ(simulated["communication"], once["communication"]);
  EXPECT_EQ(to_json(record_from_json(simulated, "test")), simulated);
}

TEST(Record, OfALoneRankSaysWhatItsCollectivesTook) {
  Record record = lone_record();
  EXPECT_EQ(setting_of(record).where(), "cuda, lone rank on m");
  record.options[collective_load] = "none";
  EXPECT_EQ(setting_of(record).where(), "cuda, lone rank on m");
  record.options[collective_load] = "all";
  EXPECT_EQ(setting_of(record).where(), "cuda, lone rank on m, loaded");
}

TEST(Record, OlderThanCommunicationReservedMemoryAndFindingsCanBeRead) {
  json old = to_json(testing::full_record());
  EXPECT_EQ(old["memory"]["reserved"], 88);
  old.erase("communication");
  old["memory"].erase("reserved");
  old.erase("findings");
  const Record record = record_from_json(old, "test");
  EXPECT_FALSE(record.modelled);
  EXPECT_TRUE(record.findings.empty());
  EXPECT_FALSE(record.memory->reserved);
  EXPECT_TRUE(to_json(record)["memory"]["reserved"].is_null());
}

TEST(Record, SaysWhatIsNeededWhereThatIsKnown) {
  Record record = testing::full_record();
  EXPECT_FALSE(to_json(record).contains("needed"));
  record.needed = Needed{.on = "virtual:m", .memory = *record.memory, .capacity = 5};
  record.needed->memory.stages = {{.at_peak = {1, 2, 3}, .peak = 6}};
  json once = to_json(record);
  EXPECT_EQ(once["needed"]["capacity"], 5);
  EXPECT_EQ(once["needed"]["memory"]["stages"][0]["at_peak"]["gradient"], 2);
  EXPECT_TRUE(once["needed"]["host_capacity"].is_null());
  EXPECT_EQ(to_json(record_from_json(once, "test")), once);
  record.needed->host_capacity = 7;
  EXPECT_EQ(record_from_json(to_json(record), "test").needed->host_capacity, 7);
  once["needed"]["memory"]["stages"] = json::array();
  EXPECT_THAT([&] { record_from_json(once, "file: line 3"); },
              ThrowsMessage<InputError>(HasSubstr("needed.memory.stages")));
}

TEST(Record, SaysWhatAStepComesTo) {
  Record record = testing::full_record();
  record.work->done.calls = {7, 3, 2, 5};
  const json work = to_json(record)["work"];
  EXPECT_EQ(work["operations"], json({{"fill", {{"count", 1}, {"bytes", 40}, {"flops", 0}}}}));
  EXPECT_EQ(work["bytes"], 40);
  EXPECT_EQ(work["least"]["total"], 150);
  EXPECT_TRUE(work["calls"].is_null()) << "a processor is not called";
  record.on = "cuda";
  const json on_gpu = to_json(record);
  EXPECT_EQ(on_gpu["work"]["calls"],
            json({{"launches", 7}, {"library_calls", 3}, {"copies", 2}, {"synchronisations", 5}}));
  EXPECT_EQ(to_json(record_from_json(on_gpu, "test")), on_gpu);
  record.on = "virtual:m";
  const json simulated = to_json(record);
  EXPECT_EQ(simulated["work"]["calls"]["launches"], 7);
  EXPECT_TRUE(simulated["work"]["calls"]["synchronisations"].is_null());
  EXPECT_EQ(to_json(record_from_json(simulated, "test")), simulated);
}

TEST(Record, OlderThanWorkCanBeRead) {
  json old = to_json(testing::full_record());
  old.erase("work");
  EXPECT_FALSE(record_from_json(old, "test").work);
}

TEST(Record, HasTheOperationsThatThisProgramKnows) {
  json other = to_json(testing::full_record());
  other["work"]["operations"]["conv"] = other["work"]["operations"]["fill"];
  EXPECT_THAT([&] { record_from_json(other, "file: line 3"); },
              ThrowsMessage<InputError>(HasSubstr("work.operations.conv")));
}

/// As records were before there was a choice.
TEST(Record, WithoutAttentionHasSeparateAttention) {
  Record fused = testing::full_record();
  fused.config.recompute = Recompute::none;
  fused.config.attention = AttentionKind::fused;
  json record = to_json(fused);
  EXPECT_EQ(record["configuration"]["attention"], "fused");
  EXPECT_EQ(record_from_json(record, "file").config.attention, AttentionKind::fused);
  record["configuration"].erase("attention");
  EXPECT_EQ(record_from_json(record, "file").config.attention, AttentionKind::separate);
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
  EXPECT_THAT(broken("/configuration/attention", "flash"), says("configuration.attention"));
  EXPECT_THAT(broken("/memory/peak/activation", -1), says("memory.peak.activation"));
  EXPECT_THAT(broken("/metrics/forward_time/samples", json::array()), says("samples"));
  EXPECT_THAT(broken("/communication/kind", "guessed"), says("real or modelled"));
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
  EXPECT_TRUE(changed([](Record& r) { r.config.attention = AttentionKind::fused; }));
  EXPECT_TRUE(changed([](Record& r) { r.options["threads"] = "3"; }));
  EXPECT_TRUE(changed([](Record& r) { r.on = "virtual:x"; }));
  EXPECT_TRUE(changed([](Record& r) { r.machine = hash_of("another data sheet"); }));
  EXPECT_TRUE(changed([](Record& r) { r.modelled = {"m", hash_of("m")}; }));
  EXPECT_TRUE(changed([](Record& r) { r.program = hash_of("another build"); }));
  EXPECT_FALSE(changed([](Record& r) { r.ended = "later"; }));
  EXPECT_FALSE(changed([](Record& r) { r.losses.clear(); }));
  EXPECT_FALSE(changed([](Record& r) { r.rounds = "later"; }));
}

TEST(Hash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), "cbf29ce484222325");
  EXPECT_EQ(hash_of("foobar"), "85944171f73967e8");  // the function's published test vector
  EXPECT_EQ(program_hash(), hash_of(testing::read("/proc/self/exe")));
}

TEST(Records, MixesNeitherThreadsNorProgramsNorRounds) {
  Record base = testing::full_record(), ours = base;
  base.case_id = "base";
  ours.case_id = "ours";
  const Setting two{Source::measured, "cpu", 4, 2};
  const auto both_after = [&](auto change) {
    Records records;
    records.add(base);
    Record newer = ours;
    change(newer);
    records.add(newer);
    EXPECT_NE(records.find("paper/table", "ours", setting_of(newer)), nullptr);
    return records.find("paper/table", "base", setting_of(newer)) != nullptr;
  };
  EXPECT_EQ(setting_of(base), two);
  EXPECT_TRUE(both_after([](Record&) {}));
  EXPECT_FALSE(both_after([](Record& r) { r.options["threads"] = "1"; }));
  EXPECT_FALSE(both_after([](Record& r) { r.rounds = hash_of("later"); }));
  EXPECT_FALSE(both_after([](Record& r) { r.program = hash_of("another"); }));
  EXPECT_FALSE(both_after([](Record& r) { r.machine = ""; }));
  EXPECT_FALSE(both_after([](Record& r) { r.device = "another processor"; }));
}

TEST(Records, MixesNoModelledCommunicationWithReal) {
  Records records;
  Record lone = lone_record(), real = lone;
  real.modelled.reset();
  real.device = "a GPU";
  records.add(lone);
  records.add(real);
  const auto settings = records.settings("paper/table");
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(settings[0].where(), "cuda, lone rank on m");
  EXPECT_EQ(settings[1].where(), "cuda");
  EXPECT_TRUE(records.find("paper/table", "a case", settings[0])->modelled);
  EXPECT_FALSE(records.find("paper/table", "a case", settings[1])->modelled);
}

/// A setting's cases may have different numbers of ranks, of which `device` speaks.
TEST(Records, LoneRanksOfDifferentGroupsAreComparable) {
  Records records;
  Record two = lone_record(), eight = two;
  two.case_id = "two";
  two.device = "a GPU; one rank of 2; communication modelled on m";
  records.add(two);
  records.add(eight);
  EXPECT_NE(records.find("paper/table", "two", setting_of(eight)), nullptr);
  two.device = "another GPU; one rank of 2; communication modelled on m";
  records.add(two);
  EXPECT_EQ(records.find("paper/table", "a case", setting_of(eight)), nullptr);
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
  const Setting cpu{Source::measured, "cpu", 4, 2};
  EXPECT_EQ(records.find("paper/table", "a case", cpu)->memory->peak_total, 2);
  EXPECT_EQ(records.find("paper/table", "a case", {Source::measured, "cpu", 2, 2}), nullptr);
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

TEST(RecordFile, TakesACutOffLastLineAway) {
  const testing::Folder folder;
  const Record record = testing::full_record();  // the host's load is in it, which changes
  { RecordFile(folder / "").append(record); }
  const std::string line = testing::read(folder / "records.jsonl");
  for (const size_t left : {size_t{1}, line.size() / 2, line.size() - 2, line.size() - 1}) {
    std::ofstream(folder / "records.jsonl") << line << line.substr(0, left);
    bool truncated = false;
    EXPECT_EQ(read_records(folder / "", truncated).size(), 1U);
    EXPECT_TRUE(truncated);
    EXPECT_EQ(testing::read(folder / "records.jsonl").size(), line.size() + left);  // only read
    RecordFile file(folder / "");
    EXPECT_TRUE(file.truncated());
    EXPECT_EQ(file.records().size(), 1U);
    file.append(record);
    EXPECT_EQ(testing::read(folder / "records.jsonl"), line + line);
  }
}

TEST(RecordFile, RejectsEveryOtherLineThatIsNoRecord) {
  const testing::Folder folder;
  { RecordFile(folder / "").append(testing::full_record()); }
  const std::string line = testing::read(folder / "records.jsonl");
  const auto rejects = [&](const std::string& content, const char* where) {
    std::ofstream(folder / "records.jsonl") << content;
    EXPECT_THAT([&] { RecordFile(folder / ""); },
                ThrowsMessage<InputError>(HasSubstr(std::string("records.jsonl: line ") + where)));
    EXPECT_EQ(testing::read(folder / "records.jsonl"), content);
    bool truncated = false;
    EXPECT_THROW(read_records(folder / "", truncated), InputError);
  };
  rejects("{\"schema\": \"other\"}\n", "1");
  rejects(line + "{\"schema\": \"other\"}", "2");
  rejects(line + line.substr(0, 99) + "\n" + line, "2");  // cut off, but not the last
  rejects(line + line.substr(0, 99) + "\n", "2");
  rejects(line + "\n" + line, "2");
  rejects("garbage", "1");
  rejects("\"garbage", "1");
  rejects(std::string("\x7f"
                      "ELF\0\1\2\n",
                      8) +
              line,
          "1");
}

TEST(RecordFile, RejectsAFolderOfItsName) {
  const testing::Folder folder;
  std::filesystem::create_directory(folder / "records.jsonl");
  bool truncated = false;
  EXPECT_THAT([&] { RecordFile(folder / ""); }, ThrowsMessage<InputError>(HasSubstr("not a file")));
  EXPECT_THAT([&] { read_records(folder / "", truncated); },
              ThrowsMessage<InputError>(HasSubstr("not a file")));
}

TEST(RecordFile, HasOneWriter) {
  const testing::Folder folder;
  {
    RecordFile file(folder / "");
    const auto second = [&] { RecordFile(folder / ""); };
    EXPECT_THAT(second, ThrowsMessage<InputError>(HasSubstr("another run of frugal")));
    file.append(testing::full_record());
    file.set_aside();
    EXPECT_THAT(second, ThrowsMessage<InputError>(HasSubstr("another run of frugal")));
  }
  EXPECT_TRUE(RecordFile(folder / "").records().empty());
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

TEST(MeasurementTable, SaysWhatDecidedBesidesTheConfiguration) {
  Record record = testing::full_record();
  EXPECT_EQ(measurement_table(record).text().find("products of float32"), std::string::npos);
  record.options["float32_products"] = "tf32";
  record.options["simd"] = "avx2";
  const std::string text = measurement_table(record).text();
  EXPECT_THAT(text, ContainsRegex("products of float32 +tf32"));
  EXPECT_THAT(text, ContainsRegex("FRUGAL_SIMD +avx2"));
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

/// What could not be done then may be possible now.
TEST(LastFinal, IgnoresSkippedRecordsUnlessItIsToBeSkippedAgain) {
  Record run = testing::full_record(), skipped = run;
  skipped.status = Status::skipped;
  std::vector<Record> records{skipped};
  EXPECT_EQ(last_final(records, run), nullptr);
  EXPECT_EQ(last_final(records, skipped), records.data());
  records = {run, skipped};
  EXPECT_EQ(last_final(records, run), records.data());
}

}  // namespace
}  // namespace frugal::harness
