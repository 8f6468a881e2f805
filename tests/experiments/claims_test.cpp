// Every claim, computed a second time from the cells or the raw numbers that it is about.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/schedule/timeline.h"
#include "experiments/paper.h"
#include "kernels/support/embedded.h"
#include "tests/experiments/drawn.h"

namespace frugal::experiments {
namespace {

using namespace drawn_records;

struct ExpectedClaim {
  double value, paper, tolerance;
};

double seconds_over(const std::string& of, const std::string& over) {
  return step_seconds(of) / step_seconds(over);
}
double together(const std::string& technique, size_t round) {
  return round_time("22B/" + technique, "forward", round) +
         round_time("22B/" + technique, "backward", round);
}

/// The tolerance of a ratio: a tenth of it, or half of its distance from 1 where that is less.
double of_ratio(double ratio) { return std::min(0.1 * ratio, std::abs(ratio - 1) / 2); }

/// Claims that are no single cell's, but for those of orders.
std::map<std::string, ExpectedClaim> claims_of_several_cells() {
  const std::string ours = "sequence-parallel+selective", one = "530B/" + ours;
  std::map<std::string, ExpectedClaim> all = {
      {"overhead-90",
       {median_of([&](size_t i) {
          return 100 * (together("full", i) - together(ours, i)) /
                 (together("full", i) - together("baseline", i));
        }),
        90, 2.5}},
      {"sp-forward",
       {median_of([](size_t i) {
          return 100 - 100 * round_time("22B/sequence-parallel", "forward", i) /
                           round_time("22B/baseline", "forward", i);
        }),
        6, 1.3}},
      {"dp-overhead", {100 * seconds_over(one + "/x8", one) - 100, 3.5, 0.35}}};
  const Paper mst("mst2024"), pipes("pipedream2bw2021");
  for (const auto& [of, over] :
       {std::pair{"llama3-8b mini-sequence, batch 2",
                  "llama3-8b activation recomputation, batch 2"},
        {"llama2-7b mini-sequence without recomputation, batch 1", "llama2-7b vanilla, batch 1"}}) {
    const double paper =
        mst.cell("table6", of, "step").value / mst.cell("table6", over, "step").value;
    all[std::string("throughput/") + of] = {seconds_over(of, over), paper,
                                            std::min(0.02, of_ratio(paper))};
  }
  const auto value = [&](const std::string& figure, const std::string& row,
                         const std::string& column) {
    const Artifact& artifact = artifact_of("pipedream2bw2021/" + figure);
    static std::map<std::string, std::vector<Cell>> known;
    if (!known.contains(figure)) known[figure] = artifact.cells(drawn_of(artifact));
    const auto& cells = known.at(figure);
    return *std::ranges::find_if(cells, [&](const Cell& c) {
              return c.row == row && c.column == column;
            })->value;
  };
  const auto document =
      nlohmann::json::parse(embedded_file("experiments/pipedream2bw2021/paper.json").value());
  for (const nlohmann::json& stated : document.at("statements")) {
    if (!stated.contains("ratio")) continue;
    const auto &ratio = stated.at("ratio"), &of = ratio.at("of"), &over = ratio.at("over");
    const double paper = stated.at("value");
    all[stated.at("id")] = {
        value(ratio.at("artifact"), of[0], of[1]) / value(ratio.at("artifact"), over[0], over[1]),
        paper, of_ratio(paper)};
  }
  const std::string best = "(d,b)=(8,32)";  // at the only batch that it has
  for (const PaperCell& of : pipes.cells_of("figure8"))
    for (const PaperCell& over : pipes.cells_of("figure8")) {
      if (of.row != best || over.row == best || of.column != over.column) continue;
      const double paper = of.value / over.value;
      all["figure8/" + best + " over " + over.row] = {
          value("figure8", of.row, of.column) / value("figure8", over.row, over.column), paper,
          of_ratio(paper)};
    }
  return all;
}

/// How many pairs of a column's cells that the paper has in an order are so here, of how many.
ExpectedClaim order_of(const std::vector<Cell>& cells, const std::string& column) {
  ExpectedClaim order{0, 0, 0};
  for (const Cell& a : cells)
    for (const Cell& b : cells) {
      const bool ours = a.column == column && b.column == column && !a.of_another_run &&
                        !b.of_another_run && a.paper && b.paper;
      if (!ours || *a.paper <= *b.paper) continue;
      ++order.paper;
      order.value += *a.value > *b.value ? 1 : 0;
    }
  return order;
}

/// How many cells agree about running out of memory where everything fits.
ExpectedClaim oom_of(const std::vector<Cell>& cells) {
  const auto fit = std::ranges::count_if(cells, [](const Cell& c) { return !c.paper_oom; });
  return {static_cast<double>(fit), static_cast<double>(cells.size()), 0};
}

/// Whether a claim has the number and the tolerance of a cell; the paper's number of a capacity is
/// the 80 GiB of a GPU.
bool is_of(const Claim& claim, const Cell& cell) {
  const bool capacity = claim.id.find("fits/") != std::string::npos,
             over = claim.id.starts_with("without-both");
  if (capacity) {
    // The value of no effect is what the paper says of the other one.
    const Paper paper("korthikanti2022");
    const PaperCell& other =
        paper.cell("figure1", cell.row, over ? "total, present work" : "total, baseline");
    if (claim.relation != (over ? Claim::Relation::at_least : Claim::Relation::at_most) ||
        claim.no_effect != other.value)
      return false;
  }
  return claim.value == cell.value && claim.unit == cell.unit && claim.source == cell.source &&
         (capacity || claim.no_effect == cell.no_effect) &&
         (capacity ? claim.paper == 80 && claim.tolerance == 0
                   : claim.reference() == cell.reference() && claim.tolerance == cell.tolerance);
}

TEST(Claims, AreOfTheirCells) {
  const std::map<std::string, ExpectedClaim> of_several = claims_of_several_cells();
  size_t single = 0, several = 0, orders = 0;
  for (const Artifact* artifact : all_artifacts()) {
    if (artifact->id().ends_with("section5.2")) continue;  // Planner.* has its choice
    const Records records = drawn_of(*artifact);
    const std::vector<Cell> cells = artifact->cells(records);
    for (const Claim& claim : artifact->claims(records)) {
      const size_t end = claim.id.rfind('/'), begin = claim.id.find('/') + 1;
      if (claim.id.ends_with("/passes")) continue;  // Timelines.*
      if (claim.id.ends_with("/order") || claim.id.ends_with("/oom")) {
        const ExpectedClaim all = claim.id.ends_with("/oom")
                                      ? oom_of(cells)
                                      : order_of(cells, claim.id.substr(begin, end - begin));
        EXPECT_EQ(claim.value, all.value) << claim.id;
        EXPECT_EQ(claim.paper, all.paper) << claim.id;
        // A coin has half of the pairs right, and a technique that always fits what fits.
        EXPECT_EQ(claim.no_effect, claim.id.ends_with("/oom") ? all.value : all.paper / 2);
        ++orders;
      } else if (const auto found = of_several.find(claim.id); found != of_several.end()) {
        EXPECT_NEAR(claim.value.value(), found->second.value, 1e-9) << claim.id;
        EXPECT_NEAR(claim.paper.value(), found->second.paper, 1e-9) << claim.id;
        EXPECT_NEAR(claim.tolerance.value(), found->second.tolerance, 1e-9) << claim.id;
        EXPECT_EQ(claim.no_effect, claim.unit == "x" ? 1 : 0) << claim.id;
        EXPECT_EQ(claim.relation == Claim::Relation::at_least, claim.id == "overhead-90");
        ++several;
      } else {
        EXPECT_EQ(std::ranges::count_if(cells, [&](const Cell& c) { return is_of(claim, c); }), 1)
            << artifact->id() << " " << claim.id;
        ++single;
      }
    }
  }
  EXPECT_EQ(several, of_several.size());
  EXPECT_EQ(orders, 2U * 6 + 3);
  EXPECT_EQ(single, 189U);
}

/// "beside parameters, gradients and optimizer state 0.123 MB for each token", and of its memory.
TEST(Claims, NotesSayWhatALengthTook) {
  const Artifact& table2 = artifact_of("mst2024/table2");
  const std::string id = "llama3-8b/mini-sequence";
  double beside = static_cast<double>(bytes(id, "0 peak"));
  std::string kinds_text;
  for (const char* kind : kinds) {
    const auto of = static_cast<double>(bytes(id, std::string("0 at ") + kind));
    if (std::string_view("parameter gradient optimizer").find(kind) != std::string::npos)
      beside -= of;
    kinds_text += fmt::format("{}{} {:.2f}", kinds_text.empty() ? "" : ", ", kind, of / GiB);
  }
  for (const Cell& cell : table2.cells(drawn_of(table2)))
    if (cell.row == "llama3-8b" && cell.column == "mini-sequence") {
      EXPECT_EQ(cell.note,
                fmt::format("llama3-8b, mini-sequence: {} GiB at the peak; beside parameters, "
                            "gradients and optimizer state {:.3f} MB for each token, and of the "
                            "reported 60 K tokens, {:.3f} MB",
                            kinds_text, beside / (1e4 * drawn(id, "length")) / 1e6,
                            beside / 60000 / 1e6));
    }
}

/// A cell far from the paper's names what the paper's program has, here 1 GiB more, and what that
/// leaves unexplained.
TEST(Claims, ReasonsSayWhatAProgramExplains) {
  const Artifact& figure9 = artifact_of("korthikanti2022/figure9");
  Records records = drawn_of(figure9);
  const Records more =
      records_of(figure9, {.cpu = false, .programs = Programs::papers}, [](Record& r) {
        observe_all(r);
        for (StageMemory& stage : r.memory->stages) stage.at_peak[3] += int64_t{1} << 30;
      });
  for (const Record& record : more.all()) records.add(record);
  size_t explained = 0, left = 0;
  for (const Cell& cell : figure9.cells(records)) {
    if (!cell.paper || std::abs(*cell.value / *cell.paper - 1) <= 0.1) continue;
    const bool nearer =
        std::abs(*cell.value + 1 - *cell.paper) < std::abs(*cell.value - *cell.paper);
    ++(cell.program.empty() ? explained : left);
    EXPECT_EQ(
        cell.reason,
        cell.program.empty()
            ? fmt::format("{:.4g} GiB as megatron-lm-2022{}", *cell.value + 1,
                          nearer ? "" : ", so that does not explain it")
            : fmt::format("{:.4g} GiB are left that no behaviour of megatron-lm-2022 explains",
                          *cell.paper - *cell.value));
  }
  EXPECT_GT(std::min(explained, left), 8U);
}

/// Passes of the paper's timelines, whose microbatches it counts from 1.
TEST(Claims, TimelinesAreDrawnAsThePaperHasThem) {
  const auto document =
      nlohmann::json::parse(embedded_file("experiments/pipedream2bw2021/paper.json").value());
  for (const char* name : {"figure1a", "figure1b", "figure2", "figure3a", "figure3b"}) {
    const auto& workers = document.at("artifacts").at(name).at("workers");
    for (const auto& [timeline, source] :
         artifact_of(std::string("pipedream2bw2021/") + name).timelines()) {
      ASSERT_EQ(timeline.stages.size(), workers.size()) << name;
      for (size_t worker = 0; worker < workers.size(); ++worker) {
        auto pass = workers[worker].begin();
        for (const Span& span : timeline.stages[worker]) {
          if (!is_pass(span.action.kind) || span.begin >= 23) continue;  // where figures end
          ASSERT_NE(pass, workers[worker].end()) << name << " " << source;
          const nlohmann::json drawn_pass = {span.action.kind == ActionKind::forward ? "F" : "B",
                                             span.action.microbatch + 1, span.begin,
                                             std::min(span.end, 23.0)};
          EXPECT_EQ(drawn_pass, *pass++) << name << " " << source;
        }
        EXPECT_EQ(pass, workers[worker].end()) << name << " " << source;
      }
    }
  }
}

}  // namespace
}  // namespace frugal::experiments
