#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <random>

#include "engine/program/find_program.h"
#include "kernels/support/error.h"
#include "tests/engine/program/support.h"
#include "tests/main/left_out.h"

// What programs do besides: whatever it is, a run computes the same.
namespace frugal::engine {
namespace {

using testing::as;
using testing::bytes_of;
using testing::counted_steps;
using testing::Sizes;
using testing::small_bert;
using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;

/// Losses of a few steps and the weights after them.
std::vector<double> trained(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}, .steps = 3});
  std::vector<double> all;
  for (int i = 0; i < 2; ++i) all.push_back(trainer.step(random_batch(config, i)).loss);
  trainer.each_weight([&](const std::string&, const HostTensor& weight) {
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  });
  return all;
}

RunConfig in_a_pipeline(RunConfig config, ScheduleKind kind) {
  config.schedule = kind;
  config.pipeline_parallel = 2;
  config.microbatches = 4;
  config.micro_batch = 1;
  return config;
}

/// Runs of every model. The combinations draw behaviours of others.
std::vector<RunConfig> some_runs() {
  RunConfig parts = small_llama(), recomputing = small_bert();
  parts.mlp_chunks = 4;
  parts.head_chunks = 3;
  parts.step_in_backward = true;
  recomputing.recompute = Recompute::full;
  return {in_a_pipeline(small_gpt(), ScheduleKind::two_buffered), recomputing, parts,
          small_gemma()};
}

/// Types are float32 and float64: none is narrower than another that something is copied to.
TEST(Programs, ComputeTheSameToTheBitWhateverTheyKeep) {
  std::mt19937 random(20261125);
  for (RunConfig config : some_runs()) {
    config.type = random() % 2 == 0 ? DType::f32 : DType::f64;
    const std::vector<double> own = trained(config);
    for (int draw = 0; draw < 2; ++draw) {
      std::string said = "frugal";
      config.program = {};
      for (const Behaviour& behaviour : behaviours())
        if (behaviour.real && (draw == 1 || random() % 2 == 0)) {
          config.program.add(behaviour);
          said += "+" + std::string(behaviour.name);
        }
      config.program.name = said;
      EXPECT_EQ(trained(config), own) << said;
    }
  }
}

TEST(Programs, KeepAFloat32InputAndANormalOfEachNorm) {
  const RunConfig llama = small_llama();
  const Sizes n(llama);
  const int64_t own = bytes_of(as(llama, "frugal")).layer;
  // The input of a norm in 4 bytes in place of 2, of which one is kept by the norm before, too.
  EXPECT_EQ(bytes_of(as(llama, "float32-norms")).layer - own,
            n.layers * 2 * (4 + 2 - 2) * n.hidden);
  EXPECT_EQ(bytes_of(as(small_gpt(), "float32-norms")).layer,
            bytes_of(as(small_gpt(), "frugal")).layer)
      << "layer norms are computed without";
}

/// A behaviour that HACKING adds: from the event at which a norm reads its input to the one at
/// which its gradient begins there is a copy.
TEST(Programs, HaveABehaviourThatIsOneEntryOfEffects) {
  static const Behaviour copies{
      .name = "copied-norm-inputs",
      .changes = Changes::memory,
      .does = "A norm keeps a copy of its input",
      .effects = {effects::copies_beside(ModelEvent::norm_read, ModelEvent::norm_gradient_begins, 1,
                                         effects::Counted::activation)}};
  const RunConfig llama = as(small_llama(), "frugal");
  RunConfig copying = llama;
  copying.program.add(copies);
  const Sizes n(llama);
  EXPECT_EQ(bytes_of(copying).layer - bytes_of(llama).layer, n.layers * 2 * n.hidden * 2)
      << "two norms in a layer, two bytes for each element";
  copying.program.remove(copies);
  EXPECT_EQ(copying.program, llama.program);
}

/// An effect whose end nobody announces would last as long as its owner.
TEST(Programs, EndTheirEffectsAtEventsThatAreAnnounced) {
  std::array<std::atomic<bool>, static_cast<size_t>(ModelEvent::count_)> announced{};
  const auto at = [&](ModelEvent event) -> auto& { return announced[static_cast<size_t>(event)]; };
  Behaviour listens{.name = "listens", .changes = Changes::memory, .does = "Hears of all ends"};
  for (const Behaviour& behaviour : behaviours())
    for (const Effect& effect : behaviour.effects)
      listens.effects.push_back({effect.until, effect.until,
                                 [&at, end = effect.until](const Occasion&) { at(end) = true; }});
  RunConfig parts = small_llama();
  parts.head_chunks = 2;
  for (RunConfig c :
       {in_a_pipeline(small_gpt(), ScheduleKind::two_buffered), small_llama(), parts}) {
    c.program.add(listens);
    (void)counted_steps(c, 3);
  }
  for (const Behaviour& behaviour : behaviours())
    for (const Effect& effect : behaviour.effects) EXPECT_TRUE(at(effect.until)) << behaviour.name;
}

TEST(Programs, KeepAnActivationBesideItsProduct) {
  const RunConfig llama = small_llama();
  const Sizes n(llama);
  const int64_t own = bytes_of(as(llama, "frugal")).layer;
  EXPECT_EQ(bytes_of(as(llama, "separate-activation")).layer - own, n.layers * 2 * n.inner);
}

/// The peak is where the logits' gradient is made, as nothing else is larger.
TEST(Programs, HaveSoManyBytesForEachLogit) {
  RunConfig llama = small_llama();
  llama.model.vocabulary = 1 << 16;
  llama.model.layers = 1;
  llama.recompute = Recompute::full;
  const auto per_logit = [&](const std::string& program) {
    RunConfig more = llama;
    more.model.vocabulary += 1 << 12;
    llama.step_in_backward = more.step_in_backward = true;
    const int64_t tokens = llama.model.sequence * llama.micro_batch;
    RunConfig few = as(llama, program);
    more = as(more, program);
    // Weights, moments and gradients of the tables grow, too.
    const auto tables = [](const RunConfig& c) {
      return 2 * c.model.vocabulary * c.model.hidden * (2 + 4 + 8);
    };
    return static_cast<double>(bytes_of(more).peak - bytes_of(few).peak - tables(more) +
                               tables(few)) /
           static_cast<double>(tokens * (1 << 12));
  };
  EXPECT_EQ(per_logit("frugal"), 6);
  EXPECT_EQ(per_logit("float32-logits+log-probabilities"), 12);
  EXPECT_EQ(per_logit("float32-logits+log-probabilities+returned-logits"), 16);
  EXPECT_EQ(per_logit("float32-loss+log-probabilities+returned-logits"), 14);
  EXPECT_EQ(per_logit("log-probabilities"), 6);
}

TEST(Programs, KeepAMaskForEachMicrobatchInFlight) {
  RunConfig gpt = in_a_pipeline(small_gpt(), ScheduleKind::one_forward_one_backward);
  const int64_t own = bytes_of(as(gpt, "frugal")).activation;
  EXPECT_EQ(bytes_of(as(gpt, "causal-masks")).activation - own,
            2 * gpt.model.sequence * gpt.model.sequence)
      << "two are in flight on the first of two stages";
}

/// The result; and of the gradients of queries, keys and values two that are scaled, and all three.
TEST(Programs, CopyWhatIsBetweenAttentionAndItsMaps) {
  const RunConfig gpt = small_gpt();
  const auto copies = [&](const std::string& program) {
    const auto cluster = counted_steps(as(gpt, program));
    return cluster->rank(0).device.work().operations[Operation(Copy{}).index()];
  };
  const auto own = copies("frugal"), all = copies("copied-heads");
  const auto passes = static_cast<double>(gpt.model.layers * gpt.microbatches);
  EXPECT_EQ(all.count - own.count, passes * 4);
  EXPECT_EQ(all.cost.bytes - own.cost.bytes,
            passes * (2 + 2) * static_cast<double>(Sizes(gpt).hidden) * (1 + 1 + 1 + 3));
}

TEST(Programs, KeepVersionsOfWeightsAndGradientsInTheirTypes) {
  const RunConfig gpt = in_a_pipeline(small_gpt(), ScheduleKind::two_buffered);
  const auto parameters = [&](const std::string& program) {
    const auto cluster = counted_steps(as(gpt, program), 2);
    const Ledger& ledger = cluster->rank(0).ledger;
    return std::pair(ledger.peak(Kind::parameter), ledger.peak(Kind::gradient));
  };
  const auto own = parameters("frugal");
  EXPECT_EQ(parameters("float32-weight-versions").first, own.first / 2 * 3) << "2 + 4, not 2 + 2";
  EXPECT_EQ(parameters("narrow-gradients").second, own.second / 2 * 3) << "4 + 2";
}

/// Copies of a stage's step of two versions; and of each pass of another version than the one
/// before.
TEST(Programs, CopyVersionsOfWeights) {
  RunConfig gpt = in_a_pipeline(small_gpt(), ScheduleKind::two_buffered);
  const auto operations = [&](const std::string& program) {
    const auto cluster = counted_steps(as(gpt, program), 3);
    std::vector<std::pair<double, double>> counts;  // of converts and of copies, of each stage
    for (int stage = 0; stage < gpt.pipeline_parallel; ++stage) {
      const auto& done = cluster->rank(stage).device.work().operations;
      counts.emplace_back(done[Operation(Convert{}).index()].count,
                          done[Operation(Copy{}).index()].count);
    }
    return counts;
  };
  const auto own = operations("frugal"), all = operations("version-copies");
  // The third batch is of version 1, and those before it of version 0. The last of two stages
  // changes once. The first begins with the third batch, ends the second one and goes on.
  EXPECT_EQ(all[1].first - own[1].first, 1);
  EXPECT_EQ(all[0].first - own[0].first, 3);
  for (const size_t stage : {size_t{0}, size_t{1}}) {
    const double copies = all[stage].second - own[stage].second;
    EXPECT_GT(copies, 0);
    EXPECT_EQ(std::fmod(copies, 4 * 3), 0) << "four of each weight in each of three steps";
  }
}

TEST(Programs, HaveTensorsOfTheirOwnForParameters) {
  const auto reserved = [](const std::string& program) {
    RunConfig gpt = as(small_gpt(), program);
    gpt.model.hidden = 1 << 10;
    const auto cluster = make_virtual_cluster(gpt, find_machine("h200-hgx"));
    const Trainer trainer(*cluster, gpt, {.optimizer = {.clip = 0}, .steps = 1});
    const Rank& rank = cluster->rank(0);
    return std::pair(rank.device.reserved(), rank.ledger.current());
  };
  const auto block = reserved("caching-allocator");
  const auto separate = reserved("caching-allocator+separate-parameters");
  EXPECT_EQ(separate.second, block.second) << "as many bytes";
  EXPECT_NE(separate.first, block.first) << "of which the allocator makes others";
}

/// Gradients that come when they are needed are not there beside the logits.
TEST(Programs, HaveGradientsWhenTheyAreNeeded) {
  RunConfig llama = small_llama();
  llama.model.vocabulary = 1 << 16;
  const int64_t tables = 2 * llama.model.vocabulary * llama.model.hidden * 4;
  const int64_t own = bytes_of(as(llama, "frugal")).peak;
  EXPECT_LT(bytes_of(as(llama, "gradients-when-needed")).peak, own - tables / 4);
}

TEST(FindProgram, UnderstandsSumsDifferencesAndParts) {
  EXPECT_EQ(find_program("frugal"), Program{});
  const Program both = find_program("float32-norms+kept-outputs");
  EXPECT_TRUE(both.has("float32-norms") && both.has("kept-outputs"));
  EXPECT_EQ(both.name, "float32-norms+kept-outputs");
  EXPECT_EQ(find_program("float32-norms~float32-norms"), Program{});
  const Program megatron = find_program("megatron-lm-2022");
  EXPECT_TRUE(megatron.has("causal-masks") && megatron.device.kernels.bias);
  EXPECT_FALSE(find_program("megatron-lm-2022~causal-masks").has("causal-masks"));
  EXPECT_FALSE(find_program("megatron-lm-2022:time").has("causal-masks"));
  EXPECT_EQ(find_program("megatron-lm-2022:time").device.messages.kind, Messages::beside);
  EXPECT_EQ(find_program("megatron-lm-2022:messages").device.messages.kind, Messages::blocking);
  EXPECT_EQ(find_program("megatron-lm-2022:real").device, DeviceRules{});
  const Program two = find_program("megatron-lm-2022:time:messages");
  EXPECT_TRUE(two.device.kernels.bias && two.device.messages.kind == Messages::blocking);
  EXPECT_TRUE(std::ranges::none_of(
      two.behaviours(), [](const Behaviour* one) { return one->changes == Changes::memory; }));
  EXPECT_EQ(find_program("blocking-messages+exchanged-messages").device.messages.kind,
            Messages::exchanged);
}

std::string error(const std::string& text) {
  return kernels::message_of<InputError>([&] { (void)find_program(text); });
}

TEST(FindProgram, SaysWhatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error("megatron-lm-2023"), HasSubstr("did you mean megatron-lm-2022"));
  EXPECT_THAT(error("float32-norm"), HasSubstr("did you mean float32-norms"));
  EXPECT_THAT(error("float32-norms+"), HasSubstr("nothing before or behind"));
  EXPECT_THAT(error("megatron-lm-2022:all"),
              HasSubstr("must be one of memory, time, messages, real"));
  EXPECT_THAT(error("absent/program.json"), HasSubstr("absent/program.json"));
}

TEST(FindProgram, AConfigurationMayNotHaveABehaviour) {
  RunConfig config = as(small_llama(), "hugging-face-2024");
  config.narrow_logits = true;
  testing::expect_refused(config, "hugging-face-2024 has float32-logits, and narrow logits are on");
}

TEST(FindProgram, ChunksOfAStageAreNotExchanged) {
  RunConfig config = in_a_pipeline(small_gpt(), ScheduleKind::interleaved);
  config.chunks = 2;
  config.model.layers = 4;
  config.program = find_program("exchanged-messages");
  testing::expect_refused(config, "has exchanged-messages, and the schedule has several chunks");
}

/// Each says how it is known, and has its own name.
TEST(ProgramFiles, AreRead) {
  EXPECT_THAT(program_names(), ::testing::Contains("hugging-face-2024"));
  for (const std::string& name : program_names()) {
    const ProgramFile file = find_program_file(name);
    EXPECT_EQ(file.name, name);
    EXPECT_FALSE(file.behaviours.empty()) << name;
    for (const KnownBehaviour& known : file.behaviours)
      EXPECT_GT(known.evidence.size(), 20U) << name << " " << known.behaviour->name;
  }
}

}  // namespace
}  // namespace frugal::engine
