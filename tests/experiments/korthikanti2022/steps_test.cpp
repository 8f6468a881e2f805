#include "experiments/korthikanti2022/steps.h"

#include <gmock/gmock.h>

#include "engine/train/trainer.h"
#include "experiments/artifacts.h"
#include "experiments/korthikanti2022/formulas.h"
#include "harness/measure/runs/training.h"
#include "kernels/support/error.h"
#include "tests/experiments/synthetic.h"

/// Figures 1 and 9 and appendices B and C, executed at full size on the paper's machine, virtually.
namespace frugal::experiments::korthikanti2022 {
namespace {

const Target& selene() {
  static const auto target = make_target({.on = "virtual"});
  return *target;
}

/// Iterations take a second each: nothing is asked of their time.
void execute(Record& record) {
  if (record.what == "training")
    record.add_sample(metric::step_time, "s", 1);
  else
    observe_step_memory(selene(), record);
}

Record executed(const RunConfig& config) {
  Record record;
  record.config = config;
  execute(record);
  return record;
}

Records both_of(const Artifact& artifact) {
  Records records = records_of(artifact, {.programs = Programs::papers}, execute);
  const Records own = records_of(artifact, {}, execute);
  for (const Record& record : own.all()) records.add(record);
  return records;
}

Records all_of(const Artifact& artifact) {
  return records_of(artifact, {.scale = std::nullopt}, execute);
}

double activations(const Record& record, size_t stage) {
  return bytes_of(stage_of(record, stage).peak_per_kind, Kind::activation);
}

/// Two bars are further off than they were read to, by less than 0.07 GiB.
TEST(Figure1, BarsAreReproducedButForTwoAndNothingFitsWithoutBoth) {
  size_t reproduced = 0, capacities = 0;
  for (const Claim& claim : figure1().claims(all_of(figure1()))) {
    reproduced += claim.verdict() == Verdict::reproduced;
    if (claim.relation == Claim::Relation::about)
      EXPECT_NEAR(claim.value.value(), claim.paper.value(), 0.37) << claim.id;
    else
      ++capacities;
  }
  EXPECT_EQ(capacities, 8U);
  EXPECT_EQ(reproduced, 10U + 8U);
}

/// Equations 5 and 6: the first stage of all pipelines, interleaved and not, to the byte.
TEST(Figure1, TheFirstStageHoldsTheLayersOfEquations5And6) {
  for (const Model& m : models())
    for (const Technique& technique : {baseline, sequence, selective, present}) {
      const RunConfig run = step_config(m, technique);
      EXPECT_EQ(static_cast<double>(stage_of(executed(run), 0).peak_in_layers),
                first_stage_activation_bytes(run, {m.pipeline_parallel, m.interleave}))
          << m.config.name << " " << technique.id;
    }
}

/// Section 4.3, of a pipeline that is not interleaved: the masks of the embedding's dropout are
/// divided by t with sequence parallelism only, as figure 9 has them.
TEST(Figure1, OutsideTheLayersTheFirstStageHoldsTheEmbeddingsMasks) {
  const Model& m = model("1T");
  for (const Technique& technique : {baseline, present}) {
    const RunConfig run = step_config(m, technique);
    const Record record = executed(run);
    const double outside =
        activations(record, 0) - static_cast<double>(stage_of(record, 0).peak_in_layers);
    EXPECT_EQ(outside, outside_activation_bytes(run, {m.pipeline_parallel, 1}) *
                           (technique.sequence_parallel ? 1 : run.tensor_parallel));
  }
}

TEST(Steps, MoreMicrobatchesHoldNoMore) {
  for (const char* name : {"175B", "530B"}) {
    RunConfig run = step_config(model(name), present);
    const Record few = executed(run);
    run.microbatches *= 2;
    const Record many = executed(run);
    EXPECT_LE(run.microbatches, model(name).global_batch);
    for (size_t i = 0; i < few.memory->stages.size(); ++i) {
      EXPECT_EQ(stage_of(few, i).peak, stage_of(many, i).peak) << name << " " << i;
      EXPECT_EQ(stage_of(few, i).peak_per_kind, stage_of(many, i).peak_per_kind);
      EXPECT_EQ(stage_of(few, i).peak_in_layers, stage_of(many, i).peak_in_layers);
    }
  }
}

/// In both lines a rank holds for each microbatch in flight the inputs of its three layers, and in
/// one of them its output too, but for the last rank, which has none.
TEST(Figure9, RanksHoldAnOutputMoreForEachMicrobatchInFlight) {
  const ModelConfig& m = model("530B").config;
  const double tensor = 2.0 * static_cast<double>(m.sequence * m.hidden) / gib;
  std::map<std::string, std::vector<double>> lines;
  for (const Cell& c : figure9().cells(all_of(figure9()))) lines[c.row].push_back(c.value.value());
  const auto &with = lines.at("no deallocation"), &without = lines.at("deallocation");
  ASSERT_EQ(with.size(), 35U);
  for (size_t rank = 0; rank < 35; ++rank) {
    const double in_flight = rank == 34 ? 0 : 35 - static_cast<double>(rank);
    EXPECT_NEAR(with[rank] - without[rank], in_flight * tensor, 1e-4) << rank;
    if (rank > 1 && rank < 34) {
      EXPECT_NEAR(without[rank - 1] - without[rank], 3 * tensor, 1e-9) << rank;
    }
  }
}

/// As the paper's program, which keeps masks, all ranks are reproduced but the first; without them
/// those that have few microbatches in flight. The others say what they are with masks, or how much
/// is left.
TEST(Figure9, IsThePapersProgramsAndClaimsThatAreNotReproducedSayWhy) {
  size_t reproduced = 0, as_program = 0;
  for (const Claim& claim : figure9().claims(both_of(figure9()))) {
    EXPECT_EQ(claim.reason.empty(), claim.verdict() == Verdict::reproduced) << claim.id;
    if (claim.verdict() != Verdict::reproduced) continue;
    ++(claim.on.ends_with(papers_program) ? as_program : reproduced);
  }
  EXPECT_EQ(reproduced, 4U);  // ranks 33 and 34
  EXPECT_EQ(as_program, 10U);
}

TEST(Section4, TheFormulaOfWhatIsOutsideTheLayersIsReproducedAndNotTheSentence) {
  const auto claims = outside().claims(all_of(outside()));
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims.front().verdict(), Verdict::reproduced);
  EXPECT_NEAR(claims.front().value.value(), 0.5677, 1e-3);
}

TEST(AppendixB, TheSavingIsReproduced) {
  const auto claims = appendix_b().claims(all_of(appendix_b()));
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(claims.front().verdict(), Verdict::reproduced) << claims.front().value.value_or(-1);
}

/// What is computed from three numbers of kept microbatches is what a machine with its limit says.
TEST(AppendixC, AsManyFitAsItSaysAndNotOneMore) {
  std::map<std::pair<std::string, std::string>, double> cells;
  for (const Cell& c : appendix_c().cells(all_of(appendix_c())))
    cells[{c.row, c.column}] = c.value.value();
  for (const char* name : {"175B", "530B"}) {
    const auto cell = [&](const char* column) { return cells.at({name, column}); };
    RunConfig run = step_config(model(name), present);
    run.kept_microbatches = static_cast<int64_t>(cell("kept whole, first stage"));
    EXPECT_NEAR(static_cast<double>(stage_of(executed(run), 0).peak) / gib,
                cell("memory, first stage"), 1e-9)
        << name;
    const auto step = [](const RunConfig& r) {
      const auto cluster = selene().cluster(r);
      Trainer(*cluster, r, {}).step(Batch(static_cast<size_t>(r.microbatches)));
    };
    EXPECT_LT(run.kept_microbatches, cell("in flight, first stage"));
    const auto cases = appendix_c().cases({});
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const Case& c) {
                              return c.observes<Training>() && c.config.model.name == name &&
                                     c.config.kept_microbatches == run.kept_microbatches;
                            }))
        << name << ": the iteration keeps another number of them";
    EXPECT_NO_THROW(step(run)) << name;
    ++run.kept_microbatches;
    EXPECT_THROW(step(run), OutOfMemory) << name;
  }
}

TEST(Steps, AreRunOnVirtualMachinesOnlyAndBesideThePaperAtFullSizeOnly) {
  Selection cpu;
  cpu.virtual_machine = false;
  EXPECT_TRUE(figure1().cases(cpu).empty());
  Selection half;
  half.scale = 8;
  for (const Case& c : figure1().cases(half)) {
    EXPECT_EQ(c.config.model.hidden * 8, model(c.config.model.name).config.hidden);
    EXPECT_TRUE(c.skip.empty()) << c.skip;
  }
  for (const Cell& c : figure1().cells(records_of(figure1(), half, execute)))
    EXPECT_FALSE(c.paper) << c.row << " " << c.column;
  half.scale = 3;
  for (const Case& c : figure1().cases(half))
    EXPECT_THAT(c.skip, ::testing::HasSubstr("divisible"));
}

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
