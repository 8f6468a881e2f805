#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/document/evidence_json.h"
#include "harness/report/document/report_document.h"
#include "harness/report/document/timeline_json.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using testing::Folder;

using nlohmann::json;

/// A memory file, but for its schema, of one stage whose bytes are `bytes`, a second after another.
json memory_file(const std::vector<int64_t>& bytes) {
  json rows = json::array();
  for (size_t i = 0; i < bytes.size(); ++i)
    rows.push_back({static_cast<double>(i), "forward", bytes[i], 5});
  const json about = {
      {"command", "frugal trace"}, {"device", "one"}, {"on", "virtual:one"}, {"source", "virtual"}};
  return {{"about", about},
          {"columns", {"time", "phase", "activation", "host"}},
          {"stages", {{{"rows", rows}}}}};
}

json recorded(const json& file, size_t most) {
  const Folder folder;
  std::ofstream(folder / "one.json") << R"({"schema":"frugal.memory/1",)" << file.dump().substr(1);
  return recorded_timelines(folder / "", most).at(0);
}

TEST(RecordedTimelines, KeepWhatChanges) {
  const json timeline = recorded(memory_file({7, 7, 9}), 100);
  EXPECT_EQ(timeline["title"], "one");
  EXPECT_EQ(timeline["command"], "frugal trace");
  const json& memory = timeline["stages"][0]["memory"];
  EXPECT_EQ(memory["kinds"], json({"activation", "host"}));
  EXPECT_EQ(memory["rows"], json::parse("[[0.0,0,7,1,5],[1.0],[2.0,0,9]]"));
  EXPECT_EQ(memory["moments"], 3);
}

TEST(RecordedTimelines, ThinnedKeepPeaksAndBothEnds) {
  std::vector<int64_t> bytes(1000, 1);
  bytes[333] = 50;  // for a moment
  bytes[334] = 3;
  bytes.back() = 2;
  const json memory = recorded(memory_file(bytes), 10)["stages"][0]["memory"];
  const json& rows = memory["rows"];
  EXPECT_EQ(memory["moments"], 1000);
  EXPECT_LE(rows.size(), 12U);
  EXPECT_EQ(rows.front(), json::parse("[0.0,0,1,1,5]"));
  EXPECT_EQ(rows.back(), json::parse("[999.0,0,2]"));
  EXPECT_EQ(std::ranges::count(rows, json::parse("[333.0,0,50]")), 1);
}

Record record_of(const std::string& case_id, const std::string& on) {
  Record record;
  record.artifact = "paper/table";
  record.case_id = case_id;
  record.on = on;
  record.environment = "{}";
  record.machine = on;
  return record;
}

TEST(Evidence, IsOfTheCasesAndTheSettingOfANumber) {
  Records records;
  for (const char* on : {"virtual:a", "virtual:b"})
    for (const char* id : {"one", "two"}) records.add(record_of(id, on));
  records.add(record_of("one", "virtual:b"));  // run again: it counts
  const Evidence evidence(records);
  Comparison number;
  number.on = "virtual:b";
  number.cases = {"one"};
  using Positions = std::vector<size_t>;
  EXPECT_EQ(evidence.of("paper/table", number), Positions{4});
  number.cases = {"two", "one"};
  EXPECT_EQ(evidence.of("paper/table", number), (Positions{3, 4}));
  number.cases = {};
  EXPECT_EQ(evidence.of("paper/table", number), (Positions{4, 3}));
  number.on = "virtual:c";
  EXPECT_EQ(evidence.of("paper/table", number), Positions{});
  number.on = "virtual:a";
  EXPECT_EQ(evidence.of("paper/another", number), Positions{});
  number.source = Source::formula;
  EXPECT_EQ(evidence.of("paper/table", number), Positions{});
}

/// Names come from files of users, and end no element.
TEST(ReportPage, NothingOfTheDocumentIsMarkup) {
  ReportedRecords records;
  records.records.add(record_of("</script><b>", "virtual:</SCRIPT>"));
  records.files = {"out/records.jsonl"};
  records.lines = {1};
  const json document = report_document(records, {}, {}, {});
  EXPECT_EQ(document["records"][0]["case"], "</script><b>");
  const std::string page = report_page(document, {{"<i>", "data:image/png;base64,"}});
  for (const char* markup : {"</script><b>", "</SCRIPT>", "<i>"})
    EXPECT_EQ(page.find(markup, page.find("id=\"document\"")), std::string::npos) << markup;
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>"), std::string::npos);
}

}  // namespace
}  // namespace frugal::harness
