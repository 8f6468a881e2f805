#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "experiments/artifacts.h"
#include "experiments/korthikanti2022/paper.h"
#include "experiments/outcome.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

const Selection everywhere{.programs = Programs::papers};
constexpr const char* papers_setting = "virtual:a100-selene as megatron-lm-2022";
constexpr std::pair<const char*, std::pair<double, double>> paper_times[] = {
    {"22B/baseline", {7.7, 11.9}},
    {"22B/sequence-parallel", {7.2, 11.8}},
    {"22B/full", {7.7, 19.5}},
    {"22B/selective", {7.7, 13.2}},
    {"22B/sequence-parallel+selective", {7.2, 13.1}},
    // Not the paper's.
    {"22B/fused", {7.0, 11.0}},
    {"22B/sequence-parallel+fused", {6.5, 11.1}}};

bool fused(const Cell& c) { return c.row.starts_with("fused attention"); }

/// The paper's own times, in rounds of which each is slower than the one before.
Records papers_records(const Selection& selection = everywhere) {
  return records_of(table4(), selection, [](Record& r) {
    for (const auto& [id, times] : paper_times) {
      if (r.case_id != id) continue;
      Metric forward{"s", {}}, backward{"s", {}};
      for (int round = 0; round < (r.on == "cpu" ? 12 : 1); ++round) {
        forward.samples.push_back(times.first / 1e3 * (1 + 0.1 * round));
        backward.samples.push_back(times.second / 1e3 * (1 + 0.1 * round));
      }
      r.metrics = {{metric::forward_time, forward}, {metric::backward_time, backward}};
    }
  });
}

const Cell& find(const std::vector<Cell>& cells, const std::string& row, const std::string& column,
                 const std::string& on) {
  for (const Cell& c : cells)
    if (c.row == row && c.column == column && c.on == on) return c;
  throw std::out_of_range(row + " / " + column + " / " + on);
}

TEST(Table4, MeasuredOverheadsComeFromPairedRounds) {
  const auto cells = table4().cells(papers_records());
  const Cell& overhead = find(cells, "full recompute", "overhead", "cpu");
  EXPECT_NEAR(overhead.value.value(), 100 * (27.2 / 19.6 - 1), 1e-9);
  ASSERT_TRUE(overhead.interval);  // every round has the same ratio, however slow it was
  EXPECT_NEAR(overhead.interval->low, overhead.value.value(), 1e-9);
  EXPECT_NEAR(overhead.interval->high, overhead.value.value(), 1e-9);
  const Cell& forward = find(cells, "full recompute", "forward", "cpu");
  EXPECT_NEAR(forward.value.value(), 7.7 * 1.55, 1e-9);  // the median of rounds 0 to 11
  EXPECT_LT(forward.interval->low, forward.value.value());
  EXPECT_GT(forward.interval->high, forward.value.value());
  EXPECT_GT(forward.interval->low, 7.6);
  EXPECT_LT(forward.interval->high, 7.7 * 2.2);
  EXPECT_EQ(overhead.paper, 39);
  EXPECT_EQ(overhead.scale, 8);
}

TEST(Table4, MillisecondsOfAnotherMachineAreNotBesideThePapers) {
  for (const Cell& c : table4().cells(papers_records())) {
    if (c.on != "cpu" || c.unit != "ms") continue;
    EXPECT_TRUE(c.value);
    EXPECT_FALSE(c.paper);
    EXPECT_FALSE(c.error_percent());
    EXPECT_FALSE(c.reason.empty());
  }
}

/// At full size on a CPU, or at half of it on the paper's machine, only ratios are comparable.
TEST(Table4, OnlyThePapersSizeOnItsMachineHasThePapersMilliseconds) {
  Selection full_size_cpu{.virtual_machine = false, .cpu = true, .scale = 1};
  Selection half_size_virtual{.virtual_machine = true, .cpu = false, .scale = 2};
  for (const Selection& selection : {full_size_cpu, half_size_virtual}) {
    const Records records =
        records_of(table4(), selection, [](Record& r) { r.status = Status::interrupted; });
    for (const Cell& c : table4().cells(records))
      EXPECT_EQ(c.paper.has_value(), c.unit == "%" && !fused(c));
  }
}

/// Nothing is claimed of them, and they have numbers.
TEST(Table4, RowsOfFusedAttentionStandBesideNoneOfThePapers) {
  size_t rows = 0;
  for (const Cell& c : table4().cells(papers_records())) {
    if (!fused(c)) continue;
    EXPECT_TRUE(c.value) << c.row << " " << c.column;
    EXPECT_FALSE(c.paper) << c.row << " " << c.column;
    ++rows;
  }
  EXPECT_EQ(rows, 2U * 2U * 4U);
  for (const Claim& claim : table4().claims(papers_records()))
    EXPECT_EQ(claim.id.find("fused"), std::string::npos) << claim.id;
}

TEST(Table4, ThePapersTimesReproduceItsClaims) {
  size_t claims = 0;
  for (const Claim& claim : table4().claims(papers_records())) {
    const bool fitted = claim.source == Source::simulated;
    EXPECT_EQ(claim.verdict(), fitted ? Verdict::calibrated : Verdict::reproduced)
        << claim.id << " on " << claim.on;
    EXPECT_EQ(claim.interval.has_value(), claim.on == "cpu") << claim.id;
    EXPECT_FALSE(claim.justification.empty()) << claim.id;
    if (claim.id == "overhead-90") {
      EXPECT_NEAR(claim.value.value(), 90.8, 0.05);
    }
    if (claim.id == "sp-forward") {
      EXPECT_NEAR(claim.value.value(), 6.5, 0.05);
    }
    ++claims;
  }
  // Combined once; overheads and two statements twice; their order where they are not the paper's.
  EXPECT_EQ(claims, 5U + 2 * (4U + 2U) + 1U);
}

/// To all of the paper's numbers, at its size.
TEST(Table4, TheVirtualMachineIsFitted) {
  for (const Cell& c : table4().cells(papers_records())) {
    EXPECT_EQ(c.fitted, c.source == Source::simulated && !fused(c)) << c.row;
    const char* simulated = fused(c) ? "published kernel's rate" : "fitted to this table";
    EXPECT_NE(c.note.find(c.source == Source::simulated ? simulated : "8 ranks as threads"),
              std::string::npos)
        << c.note;
    EXPECT_EQ(c.note.find("not the paper's") != std::string::npos, fused(c)) << c.note;
    if (c.source == Source::measured) {
      EXPECT_NE(c.note.find("f32"), std::string::npos);
      EXPECT_NE(c.note.find("not arithmetic intensity"), std::string::npos);
    }
  }
}

TEST(Table4, NothingOfAScaleModelIsFitted) {
  for (const int64_t scale : {1, 4}) {
    Setting setting{Source::simulated, "virtual:a100-selene", scale};
    setting.program = papers_program;
    const Outcome outcome{Estimate{1}, Status::ok, ""};
    const Cell cell =
        make_cell(paper(), "table4", "full recompute", "forward", "ms", setting, outcome);
    ASSERT_TRUE(cell.paper);
    EXPECT_EQ(cell.fitted, scale == 1);
  }
}

/// Ratios of samples from different rounds would not cancel what slowed one of them down.
TEST(Table4, RoundsThatWereNotInterleavedAreRefused) {
  Records records = papers_records();
  Record shorter = *records.find(table4().id(), "22B/full", {Source::measured, "cpu", 8});
  for (auto& [name, metric] : shorter.metrics) metric.samples.pop_back();
  records.add(shorter);
  const auto cells = table4().cells(records);
  const Cell& refused = find(cells, "full recompute", "overhead", "cpu");
  EXPECT_FALSE(refused.value);
  EXPECT_EQ(refused.status, Status::failed);
  EXPECT_NE(refused.reason.find("same rounds"), std::string::npos);
  EXPECT_TRUE(find(cells, "full recompute", "forward", "cpu").value);
  EXPECT_TRUE(find(cells, "selective recompute", "overhead", "cpu").value);
  EXPECT_TRUE(find(cells, "full recompute", "overhead", papers_setting).value);
  for (const Claim& claim : table4().claims(records))
    if (claim.id == "overhead-90" && claim.on == "cpu") {
      EXPECT_EQ(claim.verdict(), Verdict::not_measurable);
      EXPECT_EQ(claim.reason, refused.reason);
    }
}

/// The same forward pass that took a quarter longer in the turns of the selective layer, whose both
/// passes took a sixth longer: the device was another one.
TEST(Table4, OverheadsThatTheDeviceMadeAreRefused) {
  Records records = papers_records();
  const Setting cpu{Source::measured, "cpu", 8};
  const Record* base = records.find(table4().id(), "22B/baseline", cpu);
  Record ours = *records.find(table4().id(), "22B/selective", cpu);
  ASSERT_EQ(ours.metrics["forward_time"].samples, base->samples("forward_time"));
  const auto cell = [&] {
    return find(table4().cells(records), "selective recompute", "overhead", "cpu");
  };
  const Cell still = cell();
  EXPECT_TRUE(still.value);
  EXPECT_NE(still.note.find("selective recompute: the forward pass, the same work as the "
                            "baseline's, changed by +0.0 % "
                            "[+0.0, +0.0]"),
            std::string::npos)
      << still.note;
  for (double& seconds : ours.metrics["forward_time"].samples) seconds *= 1.25;
  for (size_t i = 0; i < ours.metrics["backward_time"].samples.size(); ++i)
    ours.metrics["backward_time"].samples[i] = base->samples("backward_time")[i] * 1.1;
  records.add(ours);
  const Cell refused = cell();
  EXPECT_FALSE(refused.value);
  EXPECT_NE(
      refused.reason.find("the forward pass of 22B/selective beside that of 22B/baseline, the "
                          "same work, changed by +25.0 %"),
      std::string::npos)
      << refused.reason;
  // What sequence parallelism changes of the forward pass is its own.
  EXPECT_TRUE(find(table4().cells(records), "sequence parallel", "overhead", "cpu").value);
}

TEST(Table4, SamplesOfAnotherGroupAreNeverCombined) {
  Records records = papers_records();
  Record other = *records.find(table4().id(), "22B/full", {Source::measured, "cpu", 8});
  other.rounds = "another";
  records.add(other);
  EXPECT_FALSE(find(table4().cells(records), "full recompute", "overhead", "cpu").value);
}

/// Paper's records, but the present work's backward passes are as slow as full recomputation's.
Records without_gain(const Selection& selection) {
  Records records = papers_records(selection);
  for (Record r : std::vector<Record>(records.all())) {
    if (r.case_id != "22B/sequence-parallel+selective") continue;
    for (double& s : r.metrics[metric::backward_time].samples) s *= 19.5 / 13.1;
    records.add(r);
  }
  return records;
}

TEST(Table4, FullRecomputeWithoutGainIsNotReproduced) {
  const Selection full_size{.virtual_machine = false, .scale = 1};
  for (const Claim& claim : table4().claims(without_gain(full_size)))
    EXPECT_EQ(claim.verdict() == Verdict::not_reproduced,
              claim.id == "overhead-90" || claim.id.starts_with("table4/selective recompute + seq"))
        << claim.id;
}

/// A machine that runs an eighth of the model says which technique costs more, and no more.
TEST(Table4, AtReducedSizeDirectionAndOrderAreJudged) {
  const auto of_cpu = [](const Records& records) {
    std::map<std::string, Claim> claims;
    for (const Claim& claim : table4().claims(records))
      if (claim.on == "cpu") claims[claim.id] = claim;
    return claims;
  };
  const auto papers = of_cpu(papers_records()), without = of_cpu(without_gain(everywhere));
  const Claim& full = papers.at("table4/full recompute/overhead");
  EXPECT_EQ(full.relation, Comparison::Relation::direction);
  EXPECT_TRUE(full.statement.ends_with("; at 1/8 of the size, its direction")) << full.statement;
  EXPECT_EQ(papers.at("table4/overhead/order").value, 6);
  EXPECT_EQ(papers.at("table4/overhead/order").interval, (Interval{6, 6}));
  // Present work is no longer below selective recomputation alone.
  for (const auto& [id, claim] : without) {
    const bool order = id == "table4/overhead/order";
    EXPECT_EQ(claim.verdict(), order ? Verdict::not_reproduced : Verdict::reproduced) << id;
    if (!order) continue;
    EXPECT_EQ(claim.interval, (Interval{5, 5}));
    EXPECT_EQ(claim.reason,
              "in the opposite order: selective recompute + sequence parallel and selective "
              "recompute");
  }
}

/// Every second round says that sequence parallelism takes longer, every other that it does not.
TEST(Table4, NoiseIsUndecidedAndSaysHowManyMoreRoundsWouldDecide) {
  Records records = papers_records();
  for (Record r : std::vector<Record>(records.all())) {
    if (r.on != "cpu" || r.case_id != "22B/sequence-parallel") continue;
    for (auto& [name, metric] : r.metrics)
      for (size_t i = 0; i < metric.samples.size(); ++i)
        metric.samples[i] *= i % 2 == 0 ? 0.9 : 1.1;
    records.add(r);
  }
  const auto cells = table4().cells(records);
  const Cell& overhead = find(cells, "sequence parallel", "overhead", "cpu");
  EXPECT_EQ(overhead.verdict(), Verdict::undecided);
  // Medians of 0.9 and 1.1 times 19/19.6: -3.06 [-12.8, +6.6] of 12 rounds.
  EXPECT_NEAR(overhead.value.value(), 100 * (19 / 19.6 - 1), 1e-9);
  const double half = 100 * 0.1 * 19 / 19.6, more = 12 * (std::pow(half / 3.0612, 2) - 1);
  EXPECT_EQ(overhead.rounds_to_decide(), std::ceil(more));  // 109
  EXPECT_EQ(overhead.reason, "about 110 more rounds would decide it, by the spread seen");
  for (const Claim& claim : table4().claims(records))
    if (claim.on == "cpu") {
      const bool noisy = claim.id == "sp-forward" || claim.id == "table4/overhead/order" ||
                         claim.id == "table4/sequence parallel/overhead";
      EXPECT_EQ(claim.verdict(), noisy ? Verdict::undecided : Verdict::reproduced) << claim.id;
      EXPECT_EQ(claim.reason.find("more rounds") != std::string::npos, noisy) << claim.reason;
    }
}

TEST(Table4, ACaseThatFailedLeavesItsReason) {
  const Records records = records_of(table4(), everywhere, [](Record& r) {
    r.status = Status::oom;
    r.reason = "12 GiB missing";
  });
  for (const Cell& c : table4().cells(records)) {
    EXPECT_FALSE(c.value);
    EXPECT_EQ(c.status, Status::oom);
    EXPECT_EQ(c.reason, "12 GiB missing");
  }
  for (const Claim& claim : table4().claims(records))
    EXPECT_EQ(claim.verdict(), Verdict::not_measurable) << claim.id;
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
