#include <gmock/gmock.h>

#include <set>

#include "experiments/artifacts.h"
#include "experiments/pipedream2bw2021/paper.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

const Artifact& figure(const std::string& name) {
  for (const auto& all : {throughputs(), footprints()})
    for (const Artifact* one : all)
      if (one->id() == "pipedream2bw2021/" + name) return *one;
  throw std::out_of_range(name);
}

/// The row and the column of a case.
std::pair<std::string, std::string> place_of(const Record& r) {
  const size_t first = r.case_id.find('/'), second = r.case_id.find('/', first + 1);
  return {r.case_id.substr(0, first), r.case_id.substr(first + 1, second - first - 1)};
}

/// Steps that take as long as the paper's bars say, the first and the last of several other times.
void as_the_paper(Record& r) {
  const auto [row, column] = place_of(r);
  const std::string name = r.artifact.substr(r.artifact.find('/') + 1);
  const PaperCell* bar = paper().find_cell(name, row.substr(0, row.find(',')), column);
  const auto sequences = static_cast<double>(r.config.micro_batch * r.config.batch_microbatches());
  const double seconds = sequences / bar->value;
  r.metrics[metric::step_time] = {"s", {2 * seconds, seconds, seconds, seconds, seconds / 2}};
}

Records virtually(const Artifact& artifact, void (*observe)(Record&), int64_t scale = 1) {
  Selection selection;
  selection.scale = scale;
  return records_of(artifact, selection, observe);
}

TEST(Throughput, ThePapersTimesReproduceItsClaimsButTheContradiction) {
  size_t claims = 0;
  for (const Artifact* artifact : throughputs()) {
    const Records records = virtually(*artifact, as_the_paper);
    for (const Cell& cell : artifact->cells(records))
      EXPECT_NEAR(*cell.error_percent(), 0, 1e-9) << artifact->id() << " " << cell.row;
    for (const Claim& claim : artifact->claims(records)) {
      const bool contradicts = claim.id == "1.3x-node";
      EXPECT_EQ(claim.verdict(), contradicts ? Verdict::not_reproduced : Verdict::reproduced)
          << claim.id << " " << claim.value.value_or(-1);
      EXPECT_EQ(claim.expected, contradicts) << claim.id;
      EXPECT_FALSE(claim.justification.empty());
      ++claims;
    }
  }
  EXPECT_EQ(claims, 10U + 2 * 6);
}

TEST(Throughput, CountsThePairsThatAreInAnotherOrder) {
  const Artifact& artifact = figure("figure6a");
  const Records records = virtually(artifact, [](Record& r) {
    as_the_paper(r);
    if (place_of(r).first == "GPipe")  // above all others
      for (double& seconds : r.metrics[metric::step_time].samples) seconds /= 1000;
  });
  for (const Claim& claim : artifact.claims(records)) {
    if (!claim.id.ends_with("/order")) continue;
    EXPECT_EQ(claim.value, 7) << claim.id;  // GPipe is above one of the four
    EXPECT_THAT(claim.reason, ::testing::HasSubstr("PipeDream-2BW is not above GPipe"));
  }
}

/// A record of each case, and behind those that run out of memory of the smaller ones, as the
/// harness makes them.
Records where_microbatches_above_2_do_not_fit(const Artifact& artifact) {
  Records records;
  for (const Case& first : artifact.cases({}))
    for (const Case* c = &first; c != nullptr;) {
      Record r = record_of(artifact, *c);
      as_the_paper(r);
      const bool fits = c->config.micro_batch <= 2;
      if (!fits) {
        r.status = Status::oom;
        r.reason = "did not fit";
      }
      records.add(std::move(r));
      c = fits || c->smaller.empty() ? nullptr : &c->smaller.front();
    }
  return records;
}

TEST(Throughput, TakesTheLargestMicrobatchThatFits) {
  const Artifact& artifact = figure("figure6b");
  for (const Cell& cell : artifact.cells(where_microbatches_above_2_do_not_fit(artifact))) {
    const std::string where = cell.row + ", " + cell.column;
    if (cell.row.starts_with("GPipe")) {  // whose batch is made smaller instead
      EXPECT_EQ(cell.status, Status::oom) << where;
      EXPECT_EQ(cell.reason, "did not fit") << where;
      EXPECT_FALSE(cell.value) << where;
    } else {
      EXPECT_EQ(cell.status, Status::ok) << where;
      EXPECT_DOUBLE_EQ(*cell.value, *cell.paper) << where;
      EXPECT_THAT(cell.reason, ::testing::HasSubstr("runs out of memory, this is b2 m")) << where;
    }
  }
}

TEST(Throughput, GPipeTakesTheLargestBatchThatFits) {
  const Artifact& artifact = figure("figure6c");
  for (const Case& c : artifact.cases({})) {
    int64_t microbatches = c.config.microbatches;
    if (c.id.starts_with("GPipe/")) {
      EXPECT_EQ(microbatches, 4) << "as many as in the paper";
      EXPECT_TRUE(c.smaller.empty());
    }
    if (!c.id.starts_with("GPipe, largest")) continue;
    EXPECT_EQ(microbatches * 8 * 4, c.id.find("/batch 512/") != std::string::npos ? 512 : 2048);
    for (const Case* at = &c; !at->smaller.empty(); at = &at->smaller.front()) {
      EXPECT_EQ(at->smaller.front().config.microbatches, microbatches /= 2);
      EXPECT_EQ(at->smaller.front().config.micro_batch, 8);
    }
    EXPECT_EQ(microbatches, 1);
  }
}

TEST(Throughput, StandsBesideThePapersAtFullSizeOnly) {
  const Artifact& artifact = figure("figure6a");
  const Records records = virtually(artifact, as_the_paper, 2);
  for (const Cell& cell : artifact.cells(records)) {
    EXPECT_TRUE(cell.value);
    EXPECT_FALSE(cell.paper) << cell.row;
  }
  EXPECT_TRUE(artifact.claims(records).empty());
}

TEST(Footprint, IsThatOfTheGpuWithMost) {
  const Artifact& artifact = figure("figure7");
  const Records records = virtually(artifact, [](Record& r) {
    r.memory = Memory{};
    r.memory->peak_total = int64_t{9000} << 20;
    if (place_of(r) != std::pair<std::string, std::string>("GPipe", "batch 64")) return;
    r.status = Status::oom;
    r.reason = "did not fit";
  });
  for (const Cell& cell : artifact.cells(records))
    if (cell.value) {
      EXPECT_DOUBLE_EQ(*cell.value, 9);
    }
  const std::vector<Claim> claims = artifact.claims(records);
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims[0].value, 9);
  EXPECT_EQ(claims[0].paper, 10);
  EXPECT_EQ(claims[0].reason, "not GPipe, batch 256");
}

/// Figure 9 begins where weights and inputs alone fill a GPU, so that what is tried first, or one
/// of the next, is the largest that fits.
TEST(Figure9, TriesEverFewerLayersOfEveryStage) {
  for (const Case& c : figure9().cases({.programs = Programs::frugal})) {
    const int64_t depth = c.config.pipeline_parallel;
    int64_t layers = c.config.model.layers;
    EXPECT_EQ(c.config.microbatches, depth) << c.id;
    EXPECT_GT(layers / depth, 40) << c.id;
    for (const Case* at = &c; !at->smaller.empty(); at = &at->smaller.front())
      EXPECT_EQ(at->smaller.front().config.model.layers, layers -= depth);
    EXPECT_EQ(layers, depth) << c.id;
  }
}

/// Less memory than the paper's program needs is not what the paper found.
TEST(Figure9, ALargerModelThanThePapersIsNotReproduced) {
  const std::vector<Claim> claims =
      figure9().claims(virtually(figure9(), [](Record& r) { r.config.model.layers *= 2; }));
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_GT(claims[0].value.value(), claims[0].paper.value());
  EXPECT_EQ(claims[0].verdict(), Verdict::not_reproduced);
}

/// The fastest depth that fits is chosen, whatever the deeper ones are.
TEST(Planner, ChoosesTheFastestDepthThatFits) {
  const auto chosen = [](int fastest, int beyond) {
    Records records;
    const auto cases = planner().cases({.scale = 1, .programs = Programs::frugal});
    for (const Case& first : cases)
      for (const Case* one = &first; one != nullptr;
           one = one->smaller.empty() ? nullptr : &one->smaller.front()) {
        Record r = record_of(planner(), *one);
        const int depth = r.config.pipeline_parallel;
        r.metrics[metric::step_time] = {"s", {depth == fastest ? 1.0 : 2.0}};
        if (depth <= beyond) r.status = Status::oom;
        records.add(std::move(r));
      }
    std::set<double> depths;
    for (const Cell& cell : planner().cells(records))
      if (cell.column == "depth") depths.insert(cell.value.value_or(0));
    return depths;
  };
  EXPECT_EQ(chosen(16, 0), std::set<double>{16});
  EXPECT_EQ(chosen(8, 0), std::set<double>{8});
  EXPECT_EQ(chosen(8, 16), std::set<double>{32});
  EXPECT_EQ(chosen(8, 64), std::set<double>{0});
}

}  // namespace
}  // namespace frugal::experiments::pipedream2bw2021
