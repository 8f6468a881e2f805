#include <gmock/gmock.h>

#include <map>
#include <set>

#include "experiments/artifacts.h"
#include "experiments/mst2024/lengths.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::mst2024 {
namespace {

using ::testing::HasSubstr;

std::vector<const Artifact*> all() {
  std::vector<const Artifact*> artifacts = longest_sequences();
  for (const Artifact* anchor : anchors()) artifacts.push_back(anchor);
  return artifacts;
}

std::string name_of(const Artifact& artifact) {
  return artifact.id().substr(artifact.id().find('/') + 1);
}

const Artifact& table(const std::string& name) {
  for (const Artifact* artifact : all())
    if (name_of(*artifact) == name) return *artifact;
  throw std::out_of_range(name);
}

/// A search that found this many tokens, or a step of a length that was given.
void found(Record& r, double tokens) {
  r.add_sample(metric::longest_sequence, "tokens", tokens);
  r.memory.emplace();
  r.memory->stages.push_back({.at_peak = {int64_t{3} << 30}, .peak = int64_t{3} << 30});
  r.memory->peak_total = int64_t{3} << 30;
}

Records found_lengths(const Artifact& artifact, const std::map<std::string, double>& tokens) {
  return records_of(artifact, {}, [&](Record& r) {
    found(r, r.case_id.ends_with(at_reported_length("")) ? 0 : tokens.at(r.case_id));
  });
}

const Cell& cell(const std::vector<Cell>& cells, const std::string& row,
                 const std::string& column) {
  for (const Cell& c : cells)
    if (c.row == row && c.column == column) return c;
  throw std::out_of_range(row + " / " + column);
}

TEST(Longest, EveryNumberOfThePaperHasACell) {
  for (const Artifact* artifact : all()) {
    const Records records = records_of(*artifact, {}, [](Record& r) { found(r, 1000); });
    std::set<std::pair<std::string, std::string>> names;
    for (const Cell& c : artifact->cells(records))
      EXPECT_TRUE(names.emplace(c.row, c.column).second) << c.row << " " << c.column;
    for (const PaperCell& c : paper().cells_of(name_of(*artifact)))
      EXPECT_EQ(names.count({c.row, c.column}), 1U)
          << artifact->id() << " " << c.row << " " << c.column;
    EXPECT_FALSE(names.empty());
  }
}

TEST(Longest, EveryCaseIsAValidRunOnItsMachine) {
  for (const Artifact* artifact : all())
    for (const Case& c : artifact->cases({})) {
      EXPECT_NO_THROW(c.config.validate()) << c.id;
      const bool searched = !c.id.ends_with(at_reported_length(""));
      EXPECT_TRUE(searched ? c.observes<workload::LongestSequence>()
                           : c.observes<workload::StepMemory>());
      EXPECT_EQ(c.config.model.sequence > 1000, !searched) << c.id;
      if (!searched) continue;
      const auto& search = std::get<workload::LongestSequence>(c.workload);
      EXPECT_EQ(search.optimizer.clip, c.config.step_in_backward ? 0 : 1) << c.id;
    }
}

TEST(Longest, ThereIsNoneOfAScaleModelOrElsewhere) {
  for (const Artifact* artifact : all()) {
    EXPECT_TRUE(artifact->cases({.scale = 4}).empty());
    EXPECT_TRUE(artifact->cases({.virtual_machine = false}).empty());
  }
}

TEST(Longest, RatiosAndClaimsFollowFromLengths) {
  const Artifact& table2 = table("table2");
  const Records records = found_lengths(table2, {{"llama3-8b/vanilla", 5000},
                                                 {"llama3-8b/activation recomputation", 15000},
                                                 {"llama3-8b/mini-sequence", 60000},
                                                 {"llama2-7b/vanilla", 7000},
                                                 {"llama2-7b/activation recomputation", 42000},
                                                 {"llama2-7b/mini-sequence", 84000}});
  const std::vector<Cell> cells = table2.cells(records);
  const Cell& length = cell(cells, "llama3-8b", "mini-sequence");
  EXPECT_EQ(length.value, 60);
  EXPECT_EQ(length.paper, 60);
  EXPECT_THAT(length.note, HasSubstr("parameter 3.00 GiB at the peak"));
  EXPECT_EQ(cell(cells, "llama3-8b", "mini-sequence / vanilla").value, 12);
  EXPECT_EQ(cell(cells, "llama2-7b", "mini-sequence / activation recomputation").value, 2);
  EXPECT_FALSE(cell(cells, "llama3-8b", "vanilla").paper);
  EXPECT_EQ(cell(cells, "llama3-8b", "mini-sequence, peak at its length").value, 3);
  std::map<std::string, Verdict> verdicts;
  for (const Claim& claim : table2.claims(records)) verdicts[claim.id] = claim.verdict();
  EXPECT_EQ(verdicts.size(), 6U);
  EXPECT_EQ(verdicts.at("table2/llama2-7b/mini-sequence / activation recomputation"),
            Verdict::not_reproduced);  // 2 against 1.8
  verdicts.erase("table2/llama2-7b/mini-sequence / activation recomputation");
  for (const auto& [id, verdict] : verdicts) EXPECT_EQ(verdict, Verdict::reproduced) << id;
}

TEST(Longest, ARatioNeedsBothLengths) {
  const Artifact& table4 = table("table4");
  const Records records = records_of(table4, {}, [](Record& r) {
    if (r.case_id.ends_with("vanilla")) {
      r.status = Status::oom;
      r.reason = "nothing fits";
    } else {
      found(r, 30000);
    }
  });
  const std::vector<Cell> cells = table4.cells(records);
  const Cell& ratio = cell(cells, "llama3-8b", "mini-sequence / vanilla");
  EXPECT_FALSE(ratio.value);
  EXPECT_EQ(ratio.status, Status::oom);
  EXPECT_EQ(ratio.reason, "nothing fits");
  EXPECT_EQ(cell(cells, "llama3-8b", "mini-sequence / activation recomputation").value, 1);
}

/// Table 4 keeps gradients, as accumulation needs them; the others do not.
TEST(Longest, GradientsAreResidentInTable4Only) {
  for (const char* name : {"table2", "table3", "table4"})
    for (const Case& c : table(name).cases({}))
      EXPECT_EQ(c.config.step_in_backward, std::string(name) != "table4") << c.id;
}

TEST(Anchors, AreMarkedAsAnotherPapers) {
  for (const Artifact* artifact : anchors()) {
    EXPECT_THAT(artifact->title(), HasSubstr("Not this paper's"));
    const Records records = records_of(*artifact, {}, [](Record& r) { found(r, 65000); });
    for (const Cell& c : artifact->cells(records))
      if (c.paper) {
        EXPECT_EQ(c.read, another_papers);
      }
    EXPECT_TRUE(artifact->claims(records).empty());
    for (const Case& c : artifact->cases({})) EXPECT_TRUE(c.config.offload_optimizer);
  }
}

}  // namespace
}  // namespace frugal::experiments::mst2024
