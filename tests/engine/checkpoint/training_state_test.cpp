#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "kernels/support/error.h"
#include "tests/engine/support.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::small_gpt;
using testing::small_llama;

std::vector<std::string> files_of(const testing::Folder& folder) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    all.push_back(entry.path().string());
  return all;
}

constexpr int before = 3, after = 3;

std::vector<double> train(Trainer& trainer, int first, int steps) {
  std::vector<Batch> batches;
  for (int i = 0; i < steps; ++i) batches.push_back(random_batch(trainer.run_config(), first + i));
  std::vector<double> losses;
  for (const StepResult& result : trainer.run(batches)) losses.push_back(result.loss);
  losses.push_back(trainer.evaluate(random_batch(trainer.run_config(), 99)));
  return losses;
}

struct Two {
  std::vector<double> without, with;
};

/// The losses of `after` steps, without an interruption and behind one, after which another trainer
/// of the configuration `then` goes on.
Two losses_of(const RunConfig& config, const RunConfig& then, const TrainConfig& training) {
  const testing::Folder folder;
  Two losses;
  const auto cluster = make_cpu_cluster(config, 1);
  Trainer trainer(*cluster, config, training);
  train(trainer, 0, before);
  (void)trainer.save_state(folder.path());
  losses.without = train(trainer, before, after);
  const auto other = make_cpu_cluster(then, 1);
  Trainer second(*other, then, training);
  second.load_state(StoredState(files_of(folder)), before);
  losses.with = train(second, before, after);
  return losses;
}

bool same_losses(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// Schedule and optimizer of a training.
struct Trained {
  std::string schedule;
  OptimizerKind optimizer;
  std::string name() const {
    std::string name = fmt::format("{}_{}", schedule, name_of(optimizer));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }
};
void PrintTo(const Trained& trained, std::ostream* out) { *out << trained.name(); }

std::vector<Trained> every_training() {
  std::vector<Trained> all;
  constexpr OptimizerKind optimizers[] = {OptimizerKind::sgd, OptimizerKind::momentum,
                                          OptimizerKind::adam, OptimizerKind::adamw};
  for (const OptimizerKind optimizer : optimizers)
    for (const char* schedule : {"1f1b", "2bw"}) all.push_back({schedule, optimizer});
  for (const std::string& schedule : ScheduleKind::names())
    if (schedule != "1f1b" && schedule != "2bw")
      all.push_back({schedule, optimizers[all.size() % 4]});
  return all;
}

class TrainingState : public ::testing::TestWithParam<Trained> {};

TEST_P(TrainingState, GoesOnAsIfNothingHadHappened) {
  const auto& [schedule, optimizer] = GetParam();
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool prediction : {false, true}) {
      RunConfig c = type == DType::bf16 ? small_llama() : small_gpt();
      c.type = type;
      c.schedule = *schedule_kind(schedule);
      c.pipeline_parallel = 2;
      if (c.schedule.has_chunks) c.chunks = 2;
      c.model.layers = 2 * c.chunks;
      c.microbatches = 4;
      TrainConfig training;
      training.optimizer.kind = optimizer;
      training.optimizer.clip = c.schedule.flushes ? 1 : 0;
      training.optimizer.learning_rate = 1e-2;
      training.steps = before + after;
      if (prediction && (c.schedule.delay == 0 || optimizer == OptimizerKind::sgd)) continue;
      training.optimizer.prediction = prediction ? 1 : 0;
      const Two losses = losses_of(c, c, training);
      EXPECT_TRUE(same_losses(losses.without, losses.with))
          << name_of(type) << (prediction ? ", predicted" : "") << ": " << losses.without.front()
          << ", " << losses.with.front() << "; " << losses.without.back() << ", "
          << losses.with.back();
    }
}

INSTANTIATE_TEST_SUITE_P(Of, TrainingState, ::testing::ValuesIn(every_training()),
                         ::testing::PrintToStringParamName());

TEST(TrainingStates, OfEveryKindOfMemory) {
  for (int variant = 0; variant < 5; ++variant) {
    RunConfig c = small_gpt();
    TrainConfig training;
    training.steps = before + after;
    if (variant == 0) c.offload_optimizer = true;
    if (variant == 1) {
      c.step_in_backward = true;
      training.optimizer.clip = 0;
    }
    if (variant == 2) c.overwrite_gradients = true;
    if (variant == 3) {
      c.type = DType::bf16;
      c.precision = Precision::pure;
    }
    if (variant == 4) c.type = DType::f64;
    c.tensor_parallel = 2;
    const Two losses = losses_of(c, c, training);
    EXPECT_TRUE(same_losses(losses.without, losses.with)) << variant;
  }
}

/// Trained in float64, where another order of sums changes little.
TEST(TrainingStates, AreReadByRanksOfAnotherLayout) {
  RunConfig c = small_gpt();
  c.type = DType::f64;
  c.model.layers = 4;
  c.microbatches = 4;
  c.tensor_parallel = 2;
  TrainConfig training;
  training.optimizer.learning_rate = 1e-2;
  training.steps = before + after;
  std::vector<RunConfig> others(5, c);
  others[0].tensor_parallel = 1;
  others[1].tensor_parallel = 4;
  others[1].sequence_parallel = true;
  others[2].pipeline_parallel = 2;
  others[2].tensor_parallel = 1;
  others[3].data_parallel = 2;
  others[3].microbatches = 2;
  others[4].pipeline_parallel = 2;
  others[4].schedule = *schedule_kind("interleaved");
  others[4].chunks = 2;
  for (const RunConfig& from : {c, others[4]})
    for (size_t i = 0; i < others.size(); ++i) {
      if (from.pipeline_parallel > 1 && i != 1) continue;  // one that divides nothing alike
      const Two losses = losses_of(from, others[i], training);
      for (size_t step = 0; step < losses.with.size(); ++step)
        EXPECT_NEAR(losses.with[step] / losses.without[step], 1, 1e-11) << i << ", " << step;
    }
}

TEST(TrainingStates, OfAnotherModelOrOptimizerAreRefused) {
  const RunConfig c = small_gpt();
  const testing::Folder folder;
  TrainConfig training;
  training.optimizer.kind = OptimizerKind::momentum;
  const auto cluster = make_cpu_cluster(c, 1);
  EXPECT_EQ(Trainer(*cluster, c, training).save_state(folder.path()),
            std::vector<std::string>{"rank-0000.safetensors"});
  const StoredState state(files_of(folder));
  const auto error = [&](const RunConfig& config, const TrainConfig& with) {
    const auto other = make_cpu_cluster(config, 1);
    return message_of<InputError>([&] { Trainer(*other, config, with).load_state(state, 1); });
  };
  EXPECT_THAT(error(c, {}), HasSubstr("tensor second_moment/"));
  RunConfig wider = c;
  wider.model.vocabulary = 128;
  EXPECT_THAT(error(wider, training),
              HasSubstr("is a part of another shape; write the file again"));
  RunConfig deeper = c;
  deeper.model.layers = 3;
  EXPECT_THAT(error(deeper, training), HasSubstr("is in no file of the checkpoint"));
  EXPECT_EQ(error(c, training), "nothing was thrown");
}

TEST(TrainingStates, ThatAreNotWholeAreRefused) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  const testing::Folder folder;
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  ASSERT_EQ(trainer.save_state(folder.path()).size(), 2U);
  const StoredState half({folder.path() + "/rank-0001.safetensors"});
  EXPECT_THAT(message_of<InputError>([&] { trainer.load_state(half, 1); }),
              HasSubstr("is not whole in the files of the checkpoint"));
}

TEST(TrainingStates, WhosePlacesMeanNothingAreRefused) {
  const testing::Folder folder;
  const auto error = [&](const std::string& place) {
    const std::string path = folder.path() + "/rank-0000.safetensors";
    std::filesystem::remove(path);
    safetensors::Writer writer(path, {{"weight/w", {6}}}, {{"weight/w", place}});
    writer.write("weight/w", std::vector<double>(6));
    writer.close();
    return message_of<InputError>([&] { StoredState({path}); });
  };
  EXPECT_EQ(error("0 6 0 2 3"), "nothing was thrown");
  EXPECT_EQ(error("1 2 3 3 3"), "nothing was thrown");
  for (const char* place :
       {"", "0 6", "0 0 1 6", "-1 6 0 6", "0 1 -1 6", "a b c", "0 1 9223372036854775807 6",
        "9223372036854775807 6 0 6", "0 99999999999999999999 0 6"})
    EXPECT_THAT(error(place), HasSubstr("tensor weight/w has no place")) << place;
}

TEST(TrainingStates, ThatAreNotFiniteAreNotWritten) {
  const testing::Folder folder;
  const RunConfig c = small_gpt();
  const auto cluster = make_cpu_cluster(c, 1);
  TrainConfig training;
  training.optimizer.learning_rate = std::numeric_limits<double>::infinity();
  Trainer trainer(*cluster, c, training);
  (void)trainer.run({random_batch(c, 0)});
  EXPECT_THAT(message_of<WrongNumbers>([&] { (void)trainer.save_state(folder.path()); }),
              AllOf(HasSubstr("weight/"), HasSubstr("is not finite, so no checkpoint")));
}

}  // namespace
}  // namespace frugal::engine
