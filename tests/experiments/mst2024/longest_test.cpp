#include <gmock/gmock.h>

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

const Cell& cell(const std::vector<Cell>& cells, const std::string& row,
                 const std::string& column) {
  for (const Cell& c : cells)
    if (c.row == row && c.column == column) return c;
  throw std::out_of_range(row + " / " + column);
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
