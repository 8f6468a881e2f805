#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/plan/ordered.h"
#include "kernels/support/error.h"
#include "tests/engine/plan/support.h"

/// Configurations that the planner searches, and those that it finds.
namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::flush;
using ::testing::HasSubstr;
using testing::plan_request;
using testing::planned_gpt;
using ::testing::ThrowsMessage;
using testing::two_buffered;

/// Tries all ways to divide the layers.
TEST(Balance, NoOtherDivisionHasAFasterSlowestStage) {
  const Machine machine = find_machine("h100-dgx");
  for (const int64_t vocabulary : {1024, 50304, 256000}) {
    for (const auto& [kind, chunks] : {std::pair{flush, 1}, {ScheduleKind::zero_bubble_v, 2}}) {
      RunConfig run = planned_gpt(10, 1024, 16, vocabulary);
      run.model.tied = false;
      run.schedule = kind;
      run.chunks = chunks;
      run.pipeline_parallel = chunks == 1 ? 4 : 2;
      const PartCosts costs(run, planned_optimizer(kind), machine);
      const auto slowest = [&](const std::vector<int64_t>& layers) {
        RunConfig divided = run;
        divided.stage_layers = layers;
        double most = 0;
        for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
          double seconds = 0;
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const PartCost part = costs.of(ModelPart::of(divided, stage, chunk));
            seconds += part.forward.seconds + part.backward.seconds;
          }
          most = std::max(most, seconds);
        }
        return most;
      };
      const std::vector<int64_t> balanced = balanced_layers(run, costs);
      EXPECT_EQ(std::accumulate(balanced.begin(), balanced.end(), int64_t{0}), run.model.layers);
      double best = slowest(balanced);
      for (int64_t a = 1; a <= 7; ++a)
        for (int64_t b = 1; a + b <= 8; ++b)
          for (int64_t c = 1; a + b + c <= 9; ++c)
            best = std::min(best, slowest({a, b, c, 10 - a - b - c}));
      EXPECT_LE(slowest(balanced), best * (1 + 1e-9)) << vocabulary << ' ' << name_of(kind);
    }
  }
}

using Shape = std::tuple<int, int, int, int64_t, int64_t, Recompute>;
Shape shape_of(const Candidate& c) {
  return {c.run.tensor_parallel, c.run.data_parallel, c.run.pipeline_parallel,
          c.run.micro_batch,     c.run.microbatches,  c.run.recompute};
}

/// All (t, w, d, b, m) there are, by trying.
TEST(Search, ConsidersEveryConfigurationOnce) {
  PlanRequest asked = plan_request(planned_gpt(12, 256, 4), "a100-selene", 24, 72, two_buffered);
  asked.tensor = {1, 2, 4};
  std::set<Shape> expected;
  for (int t : asked.tensor)
    for (int w = 1; w <= 24; ++w)
      for (int d = 1; d <= 12; ++d)
        for (int64_t b = 1; b <= 72; ++b)
          for (int64_t g = 1; g <= 72; ++g)
            if (t * w * d == 24 && 12 % d == 0 && b * w * d * g == 72)
              for (const Recomputation& r : asked.recompute)
                expected.insert({t, w, d, b, d * g, r.kind});
  const Plan plan = search(asked);
  std::set<Shape> found;
  for (const auto* list : {&plan.fitting, &plan.too_large})
    for (const Candidate& candidate : *list)
      EXPECT_TRUE(found.insert(shape_of(candidate)).second) << "twice";
  EXPECT_EQ(found, expected);
}

/// Everything at once, on a model whose layers only uneven stages divide.
TEST(Search, ConsidersTechniquesTogether) {
  PlanRequest asked = plan_request(planned_gpt(7, 256, 4), "h100-dgx", 8, 32, flush);
  asked.search_all();
  const Plan plan = search(asked);
  std::set<std::tuple<std::string_view, int, int, Shard>> found;
  std::set<std::string> sets;
  for (const Candidate& c : plan.fitting) {
    EXPECT_NO_THROW(c.run.validate());
    found.emplace(c.run.schedule.name, c.run.pipeline_parallel, c.run.chunks, c.run.shard);
    if (c.run.recompute == Recompute::selective) sets.insert(name_of(c.run.recompute_modules));
  }
  EXPECT_TRUE(found.contains({"1f1b", 4, 1, Shard::weights}));
  EXPECT_TRUE(found.contains({"interleaved", 2, 3, Shard::none}));
  EXPECT_TRUE(found.contains({"zb-v", 2, 2, Shard::none}));
  EXPECT_FALSE(found.contains({"zb-v", 2, 2, Shard::weights})) << "a rule forbids it";
  EXPECT_FALSE(found.contains({"1f1b", 8, 1, Shard::none})) << "more stages than layers";
  EXPECT_GT(plan.refused, 0);
  EXPECT_GT(sets.size(), 2U);
  EXPECT_LT(sets.size(), LayerModules::all_sets(LayerModules::searched).size())
      << "some are never worth it";
}

/// Keeps the same as if all were kept, but for what takes longer: that is counted.
void expect_to_leave_out_what_takes_too_long(PlanRequest asked) {
  const Plan all = search(asked);
  asked.within = 1.5;
  const Plan some = search(asked);
  const double longest = 1.5 * all.fitting.front().prediction.seconds;
  const auto same = [&](const std::vector<Candidate>& kept, const std::vector<Candidate>& of) {
    size_t i = 0;
    for (; i < of.size() && of[i].prediction.seconds <= longest; ++i) {
      ASSERT_LT(i, kept.size());
      EXPECT_EQ(shape_of(kept[i]), shape_of(of[i]));
      EXPECT_EQ(kept[i].prediction.seconds, of[i].prediction.seconds);
    }
    EXPECT_EQ(kept.size(), i);
    EXPECT_LT(i, of.size());
  };
  same(some.fitting, all.fitting);
  EXPECT_EQ(some.compared(), all.compared());
  EXPECT_GT(some.slower, 0);
  EXPECT_EQ(all.slower, 0);
}
TEST(Search, LeavesOutWhatTakesTooLong) {
  PlanRequest asked = plan_request(planned_gpt(12, 256, 4), "a100-selene", 16, 64, flush);
  asked.search_all();
  expect_to_leave_out_what_takes_too_long(asked);
}
/// Full recomputation offloads less than what recomputes nothing, and is faster then.
TEST(Search, LeavesOutWhatTakesTooLongWithWhatIsOffloaded) {
  PlanRequest asked = plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 8, 64, flush);
  asked.run.attention = AttentionKind::fused;
  asked.run.offload = true;
  asked.run.offload_modules = LayerModules::every();
  asked.recompute = {{Recompute::none}, {Recompute::full}};
  for (const LayerModules set : LayerModules::all_sets(LayerModules::searched))
    asked.recompute.push_back({Recompute::selective, set});
  expect_to_leave_out_what_takes_too_long(asked);
}

/// Recomputation of some layers fits, and of one layer less would not; so it is the fastest.
TEST(Search, RecomputesNoMoreLayersThanItMust) {
  PlanRequest asked = plan_request(planned_gpt(12, 1024, 16), "h100-dgx", 1, 8, flush);
  asked.recompute = {{Recompute::none}, {Recompute::full}};
  const auto fastest = [&](int64_t memory) {
    asked.memory = memory;
    return search(asked).fitting.front();
  };
  asked.run.attention = AttentionKind::fused;
  const int64_t all = fastest(asked.machine.memory_capacity).prediction.memory();
  const LayerModules set = {LayerModule::norm, LayerModule::mlp};
  asked.some_layers = true;
  std::map<Recompute, std::set<int64_t>> found;
  for (const auto& [kind, share] : {std::pair{Recompute::full, 0.95},
                                    {Recompute::full, 0.9},
                                    {Recompute::full, 0.8},
                                    {Recompute::full, 0.7},
                                    {Recompute::selective, 0.95},
                                    {Recompute::selective, 0.9}}) {
    asked.recompute = {{kind, kind == Recompute::selective ? set : RunConfig::cores}};
    const auto memory = static_cast<int64_t>(static_cast<double>(all) * share);
    const Candidate best = fastest(memory);
    const int64_t layers = best.run.recompute_layers;
    if (layers == 0) continue;
    found[kind].insert(layers);
    EXPECT_LE(best.prediction.memory(), memory);
    RunConfig fewer = best.run;
    fewer.recompute_layers = layers - 1;
    if (layers == 1) {
      fewer.recompute = Recompute::none;
      fewer.recompute_modules = RunConfig::cores;
    }
    const Prediction less = testing::predicted(fewer, asked.machine);
    EXPECT_GT(less.memory(), memory);
    EXPECT_LT(less.seconds, best.prediction.seconds);
  }
  EXPECT_GE(found[Recompute::full].size(), 2U);
  EXPECT_GE(found[Recompute::selective].size(), 2U);
}

/// Offload that is found fits, and no set of modules that fits is faster.
TEST(Search, OffloadsNoMoreThanItMust) {
  PlanRequest asked = plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 1, 1, flush);
  asked.run.model.sequence = 16384;  // activations are most of what one takes
  asked.run.attention = AttentionKind::fused;
  asked.recompute = {{Recompute::none}};
  const auto fastest = [&] { return search(asked).fitting.front(); };
  const Candidate all = fastest();
  asked.searches_offload = true;
  std::set<std::string> found;
  for (const double share : {0.9, 0.8, 0.7}) {
    asked.memory = static_cast<int64_t>(static_cast<double>(all.prediction.memory()) * share);
    const Candidate best = fastest();
    ASSERT_TRUE(best.run.offload);
    found.insert(name_of(best.run.offload_modules));
    EXPECT_LE(best.prediction.memory(), asked.memory);
    EXPECT_GE(best.prediction.seconds, all.prediction.seconds);
    for (const LayerModules set : LayerModules::all_sets(best.run.kept_modules())) {
      RunConfig other = best.run;
      other.offload_modules = set;
      const Prediction prediction = testing::predicted(other, asked.machine);
      if (prediction.memory() > asked.memory) continue;
      EXPECT_GE(prediction.seconds, best.prediction.seconds * (1 - 1e-9)) << name_of(set);
    }
  }
  EXPECT_GE(found.size(), 2U);
}

/// Removes a bubble between batches, which is all that is to be gained.
TEST(Search, ValidatesStepsLaterWhereThatMayBeFastest) {
  PlanRequest asked =
      plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 4, 16, ScheduleKind::zero_bubble_h2);
  asked.run.model.tied = false;
  asked.recompute = {{Recompute::none}};
  asked.late_steps = true;
  std::map<std::pair<int, int64_t>, std::map<StepValidation, double>> seconds;
  for (const Candidate& c : search(asked).fitting)
    seconds[{c.run.pipeline_parallel, c.run.micro_batch}][c.run.validate_steps] =
        c.prediction.seconds;
  int both = 0;
  for (const auto& [shape, found] : seconds) {
    EXPECT_FALSE(shape.first == 1 && found.contains(StepValidation::after));
    if (found.size() < 2) continue;
    ++both;
    EXPECT_LT(found.at(StepValidation::after), found.at(StepValidation::before));
  }
  EXPECT_GT(both, 0);
  asked.run.model.tied = true;  // its ends meet all the same
  for (const Candidate& c : search(asked).fitting) EXPECT_FALSE(c.run.validates_later());
}

/// Shares by Ulysses as far as there are heads, and by zigzag as far as there are pieces.
TEST(Search, SequencesAreSharedByAllThatDivideThem) {
  PlanRequest asked = plan_request(planned_gpt(8, 256, 4), "h100-dgx", 16, 16, flush);
  asked.run.model.dropout = 0;
  asked.run.attention = AttentionKind::fused;
  asked.tensor = {1, 2};
  asked.contexts = asked.sharings(asked.balanced_contexts());
  std::set<std::tuple<int, int, ContextKind>> found;
  for (const Candidate& c : search(asked).fitting) {
    EXPECT_EQ(c.run.ranks(), 16);
    found.emplace(c.run.tensor_parallel, c.run.context_parallel, c.run.context);
  }
  const auto heads = ContextKind::ulysses, pieces = ContextKind::zigzag;
  const std::set<std::tuple<int, int, ContextKind>> expected = {
      {1, 1, heads},  {1, 2, heads},  {1, 2, pieces},  {1, 4, heads},
      {1, 4, pieces}, {1, 8, pieces}, {1, 16, pieces}, {2, 1, heads},
      {2, 2, heads},  {2, 2, pieces}, {2, 4, pieces},  {2, 8, pieces}};
  EXPECT_EQ(found, expected);
  asked.run.model.dropout = 0.1F;
  EXPECT_EQ(asked.sharings(asked.balanced_contexts()).size(), 1U);
}

/// Sets that are left out of several are worse than one that is not.
TEST(Search, LeavesOutSetsThatCostMoreAndSaveNothing) {
  PlanRequest asked = plan_request(planned_gpt(8, 256, 4), "h100-dgx", 1, 4, flush);
  asked.recompute.clear();
  for (const LayerModules set : LayerModules::all_sets(LayerModules::searched))
    asked.recompute.push_back({Recompute::selective, set});
  std::set<std::string> kept;
  std::vector<Prediction> predictions;
  for (const Candidate& c : search(asked).fitting) {
    kept.insert(name_of(c.run.recompute_modules));
    if (c.run.micro_batch == 4) predictions.push_back(c.prediction);
  }
  for (const Recomputation& again : asked.recompute) {
    if (kept.contains(name_of(again.modules))) continue;
    PlanRequest alone = asked;
    alone.recompute = {again};
    for (const Candidate& c : search(alone).fitting) {
      if (c.run.micro_batch != 4) continue;
      EXPECT_TRUE(std::ranges::any_of(predictions, [&](const Prediction& other) {
        return other.seconds <= c.prediction.seconds && other.memory() <= c.prediction.memory();
      })) << name_of(again.modules);
    }
  }
}

TEST(Search, ExecutionSettlesTheFirstOnes) {
  PlanRequest asked = plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 8, 32, flush);
  asked.schedules = {flush, ScheduleKind::zero_bubble_v, ScheduleKind::interleaved};
  Plan plan = search(asked);
  const size_t all = plan.fitting.size();
  // As if predictions were wrong.
  std::reverse(plan.fitting.begin(), plan.fitting.begin() + 6);
  const std::vector<Execution> executed = settle(plan, asked.machine, 6);
  ASSERT_EQ(executed.size(), 6U);
  EXPECT_EQ(plan.fitting.size(), all);
  for (size_t i = 0; i < executed.size(); ++i) {
    EXPECT_EQ(testing::executed(plan.fitting[i].run, asked.machine).seconds, executed[i].seconds);
    EXPECT_LE(executed[i > 0 ? i - 1 : 0].seconds, executed[i].seconds);
  }
}

TEST(Search, OrdersByThroughputAndSaysWhatIsMissing) {
  const PlanRequest asked =
      plan_request(planned_gpt(24, 2048, 16), "v100-p3-16xlarge", 8, 64, two_buffered);
  const Plan plan = search(asked);
  ASSERT_FALSE(plan.fitting.empty());
  ASSERT_FALSE(plan.too_large.empty());
  for (const auto* list : {&plan.fitting, &plan.too_large})
    for (size_t i = 1; i < list->size(); ++i)
      EXPECT_LE((*list)[i - 1].prediction.seconds, (*list)[i].prediction.seconds);
  for (const Candidate& c : plan.fitting) EXPECT_LE(c.prediction.memory(), asked.memory);
  for (const Candidate& c : plan.too_large)
    EXPECT_EQ(c.prediction.memory(), asked.memory + c.missing);
}

TEST(Search, RefusesWhatCannotBeDivided) {
  const RunConfig model = planned_gpt(12, 256, 4);
  const auto rejected = [](const PlanRequest& asked, const auto& says) {
    EXPECT_THAT([&] { (void)search(asked); }, ThrowsMessage<InputError>(says));
  };
  rejected(plan_request(model, "a100-selene", 8, 20, flush),
           AllOf(HasSubstr("--batch is 20"), HasSubstr("multiple of 8, such as 16")));
  rejected(plan_request(model, "a100-selene", 8, 4, flush), HasSubstr("such as 8"));
  rejected(plan_request(model, "a100-selene", 8, 16, ScheduleKind::pipedream),
           AllOf(HasSubstr("--schedule is pipedream"), HasSubstr("2bw")));
  PlanRequest odd = plan_request(model, "a100-selene", 9, 18, flush);
  odd.tensor = {2};
  rejected(odd, AllOf(HasSubstr("--devices is 9"), HasSubstr("--tensor-parallel (2)")));
}

/// Every one of 16,384 devices is used, and how they lie on 2048 nodes is known.
TEST(Search, ThousandsOfNodes) {
  constexpr int devices = 1 << 14;
  PlanRequest asked =
      plan_request(planned_gpt(64, 12288, 96), "a100-selene", devices, devices, flush);
  asked.tensor = {1, 8};
  const Plan plan = search(asked);
  ASSERT_FALSE(plan.fitting.empty());
  std::set<int> depths;
  for (const auto* list : {&plan.fitting, &plan.too_large})
    for (const Candidate& candidate : *list) {
      EXPECT_EQ(candidate.run.ranks(), devices);
      EXPECT_EQ(candidate.run.micro_batch * candidate.run.batch_microbatches(), devices);
      depths.insert(candidate.run.pipeline_parallel);
    }
  EXPECT_THAT(depths, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  RunConfig run = planned_gpt(64, 12288, 96);
  run.pipeline_parallel = 4;
  run.data_parallel = devices / 4 / 2;
  run.tensor_parallel = 2;
  const Links links(run, asked.machine);
  for (int stage = 0; stage < 3; ++stage)
    EXPECT_EQ(links.between(stage, stage + 1).there, 8) << "all of a node";
  for (const CostModel::Group& replicas : links.replicas) {
    EXPECT_EQ(replicas.size, run.data_parallel);
    EXPECT_EQ(replicas.per_node, 4);
  }
}

/// A few of the cases of bench/plan.cpp.
TEST(Search, FirstChoiceIsTheFastestExecuted) {
  const char* const machine = "v100-p3-16xlarge";
  for (const PlanRequest& asked :
       {plan_request(planned_gpt(24, 1024, 16), machine, 8, 32, two_buffered),
        plan_request(planned_gpt(24, 1024, 16), machine, 16, 64, flush),
        plan_request(planned_gpt(8, 2304, 32), machine, 8, 16, ScheduleKind::gpipe)}) {
    const Plan plan = search(asked);
    double chosen = 0, best = 0;
    for (const Candidate& candidate : plan.fitting) {
      const double rate = 1 / testing::executed(candidate.run, asked.machine).seconds;
      if (chosen == 0) chosen = rate;
      best = std::max(best, rate);
    }
    EXPECT_GE(chosen, 0.95 * best) << asked.devices << " devices";
  }
}

}  // namespace
}  // namespace frugal::engine
