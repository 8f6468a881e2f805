#include <gmock/gmock.h>

#include <map>
#include <set>

#include "engine/plan/lone_stage.h"
#include "experiments/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/paper.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr const char* lone = "cuda, lone rank on h200-hgx";

Selection on_gpus(int count) {
  return {.virtual_machine = false, .cpu = false, .cuda = GpuSelection{count, "h200-hgx"}};
}

/// Every case with memory as printed and times of its own.
void observe(Record& r) {
  BytesPerKind held{};
  held[static_cast<size_t>(Kind::activation)] = layer_activation_bytes(r.config);
  r.memory = Memory{held, {}, 0};
  r.flops = Flops{};
  r.flops->hardware = 1;
  const double forward = r.config.tensor_parallel > 1 ? 1 : 6;
  const double backward = r.config.recompute == Recompute::full ? 3 * forward : 2 * forward;
  r.metrics = {{metric::forward_time, {"s", std::vector<double>(12, forward)}},
               {metric::backward_time, {"s", std::vector<double>(12, backward)}}};
}

TEST(Cuda, CasesAreThePapersOwn) {
  for (const Artifact* artifact :
       {&table2(), &parts_of_a_layer(), &table4(), &figure7(), &section5()})
    for (const Case& c : artifact->cases(on_gpus(1))) {
      EXPECT_EQ(c.on, "cuda");
      EXPECT_EQ(c.scale, 1);
      EXPECT_EQ(c.config.type, DType::bf16);
      EXPECT_EQ(c.config.micro_batch, model(c.config.model.name).micro_batch);
      EXPECT_EQ(c.lone_rank, c.config.tensor_parallel == 8 ? "h200-hgx" : "") << c.id;
    }
}

/// Whole iterations of the models with a pipeline: stages that run alone.
TEST(Cuda, Table5IsPutTogetherFromStages) {
  for (const Case& c : table5().cases(on_gpus(1))) {
    EXPECT_EQ(c.on, "cuda");
    EXPECT_EQ(c.lone_rank, "h200-hgx") << c.id;
    EXPECT_EQ(why_not_lone_stages(c.config), "") << c.id;
    EXPECT_EQ(c.config.microbatches * c.config.micro_batch,
              model(c.config.model.name).global_batch);
  }
  const Records records = records_of(table5(), on_gpus(1), [](Record& r) {
    const double step = r.config.recompute == Recompute::full ? 13 : 10;
    r.metrics = {{metric::step_time, {"s", {step, step, step}}},
                 {metric::computation_time, {"s", {6, 7, 8}}},
                 {metric::communication_time, {"s", {2, 2, 2}}},
                 {metric::bubble_time, {"s", {1, 1, 1}}}};
  });
  std::map<std::string, size_t> columns;
  for (const Cell& c : table5().cells(records)) {
    if (c.source == Source::formula) continue;
    EXPECT_EQ(c.on, lone);
    ++columns[c.column];
    EXPECT_EQ(c.paper.has_value(), c.unit == "%") << c.row << ", " << c.column;
    if (c.column == "throughput increase") {
      EXPECT_NEAR(c.value.value(), 30, 1e-9);
    }
    if (c.column == "computation") {
      EXPECT_EQ(c.value, 7);
    }
  }
  EXPECT_EQ(columns, (std::map<std::string, size_t>{{"full recompute", 4},
                                                    {"sequence parallel + selective recompute", 4},
                                                    {"throughput increase", 4},
                                                    {"computation", 3},
                                                    {"communication, modelled", 3},
                                                    {"bubble, walked", 3}}));
}

TEST(Cuda, WithAGpuForEveryRankNothingIsModelled) {
  for (const Case& c : table4().cases(on_gpus(8))) EXPECT_EQ(c.lone_rank, "") << c.id;
  for (const Case& c : table4().cases(on_gpus(7)))
    EXPECT_EQ(c.lone_rank.empty(), c.id.ends_with("/t1")) << c.id;
  const Records records = records_of(table4(), on_gpus(8), observe);
  EXPECT_EQ(records.settings(table4().id()).size(), 1U);
}

TEST(Cuda, OnlyTable4RunsOnOneDeviceBesides) {
  std::set<std::string> alone;
  for (const Case& c : table4().cases(on_gpus(1)))
    if (c.config.tensor_parallel == 1) alone.insert(c.id);
  EXPECT_EQ(alone, (std::set<std::string>{"22B/baseline/t1", "22B/full/t1", "22B/fused/t1",
                                          "22B/selective/t1"}));
  Selection elsewhere;
  for (const Case& c : table4().cases(elsewhere)) EXPECT_FALSE(c.id.ends_with("/t1"));
}

TEST(Cuda, ModelledCommunicationIsInAColumnOfItsOwn) {
  std::map<std::string, std::set<std::string>> rows;  // of each origin
  for (const Cell& c : table2().cells(records_of(table2(), on_gpus(1), observe))) {
    EXPECT_TRUE(c.value) << c.row << ": " << c.reason;
    EXPECT_EQ(c.source, Source::measured);
    rows[c.on].insert(c.row);
  }
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.at("cuda"), std::set<std::string>{"no parallelism"});
  EXPECT_EQ(rows.at(lone).size(), 5U);
}

TEST(Cuda, BytesAtFullSizeStandBesideThePapers) {
  const Records records = records_of(table2(), on_gpus(1), observe);
  for (const Claim& claim : table2().claims(records)) {
    EXPECT_TRUE(claim.paper);
    EXPECT_EQ(claim.verdict(), Verdict::reproduced) << claim.id;
  }
  EXPECT_EQ(table2().claims(records).size(), 6U * 4);
}

TEST(Cuda, Table4HasTheOverheadsOfOneDeviceWithoutThePapersNumbers) {
  const Records records = records_of(table4(), on_gpus(1), observe);
  size_t parallel = 0, alone = 0;
  for (const Cell& c : table4().cells(records)) {
    EXPECT_TRUE(c.value) << c.row << " " << c.column << ": " << c.reason;
    const bool one_device = c.column.ends_with(", one device");
    EXPECT_EQ(c.on, one_device ? "cuda" : lone);
    const bool papers = !c.row.starts_with("fused");
    EXPECT_EQ(c.paper.has_value(), papers && !one_device && c.unit == "%") << c.row << c.column;
    EXPECT_THAT(c.note, ::testing::HasSubstr(one_device ? "1 GPU" : "the other 7 ranks absent"));
    EXPECT_THAT(c.note, ::testing::StartsWith("NVIDIA H200 in words; "));
    if (c.row == "full recompute" && c.unit == "%") {
      EXPECT_NEAR(c.value.value(), 100.0 / 3, 1e-9);
    }
    ++(one_device ? alone : parallel);
  }
  EXPECT_EQ(parallel, 7U * 3 + 6);
  EXPECT_EQ(alone, 4U * 3 + 3);
  for (const Claim& claim : table4().claims(records)) {
    EXPECT_EQ(claim.on, lone) << claim.id;
    EXPECT_EQ(claim.note(), "communication modelled on h200-hgx") << claim.id;
  }
}

/// A cell beside another row's number would need that row's at this size, and no time is below
/// zero: neither has a direction.
TEST(Cuda, AtReducedSizeFigure8HasDirectionsWhereThereAreTwo) {
  Selection reduced = on_gpus(8);
  reduced.scale = 4;
  for (const Cell& c : figure8().cells(records_of(figure8(), reduced, observe))) {
    if (!c.paper) continue;
    const bool direction = c.relation == Comparison::Relation::direction;
    EXPECT_EQ(direction, c.verdict() != Verdict::not_comparable) << c.row << ", " << c.column;
    EXPECT_EQ(direction, c.column == "total" || c.column == "recompute") << c.row << c.column;
  }
}

/// Nobody knows its links, and the paper's machine has others.
TEST(Cuda, OfAGpuThatNobodyKnowsLoneRanksAreSkipped) {
  Selection unknown = on_gpus(1);
  unknown.cuda = GpuSelection{1, "", "another GPU"};
  for (const Case& c : table4().cases(unknown)) {
    EXPECT_EQ(c.lone_rank, "") << c.id;
    EXPECT_EQ(c.skip.empty(), c.id.ends_with("/t1")) << c.id;
    if (!c.skip.empty()) {
      EXPECT_THAT(c.skip, ::testing::StartsWith("no file of hardware/ names this GPU")) << c.id;
    }
  }
  unknown.cuda->count = 8;
  for (const Case& c : table4().cases(unknown)) EXPECT_EQ(c.skip, "") << c.id;
}

/// A case that did not end well is no case that belongs elsewhere.
TEST(Cuda, ACaseThatFailedLeavesItsReason) {
  const Records records = records_of(table4(), on_gpus(1), [](Record& r) {
    r.status = Status::oom;
    r.reason = "12 GiB missing";
  });
  const auto cells = table4().cells(records);
  EXPECT_EQ(cells.size(), 7U * 3 + 6 + 4 * 3 + 3);
  for (const Cell& c : cells) EXPECT_EQ(c.reason, "12 GiB missing");
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
