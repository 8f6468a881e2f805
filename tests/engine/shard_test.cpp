#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/replicas.h"

// Replicas that divide the optimizer's state, gradients and weights (RunConfig::shard) are the same
// training as replicas that have copies.
namespace frugal::engine {
namespace {

using testing::replica_steps;
using testing::replica_training;
using testing::small_gpt;
using testing::small_llama;
using testing::trained;
using testing::TrainedRun;
using testing::worst_error;

/// Training that is the same to the bit however replicas divide: the norm that clips is a sum that
/// parts round otherwise than the whole.
const TrainConfig without_clipping = replica_training(0);

/// Losses, norms, weights, and what is computed with them. The same sums in the same order give the
/// same bits; where each microbatch's gradients are summed, or a group of ranks' before another's,
/// the order is another.
TEST(Shard, IsTheSameTraining) {
  RunConfig c = small_gpt();
  c.type = DType::f64;
  c.tensor_parallel = 2;
  c.data_parallel = 4;
  const TrainedRun copies = trained(c, replica_training(0.5));
  c.shard_size = 2;
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::weights}) {
    SCOPED_TRACE(name_of(shard));
    c.shard = shard;
    const TrainedRun divided = trained(c, replica_training(0.5));
    const auto worst = worst_error(divided.end, copies.end);
    EXPECT_LT(worst.value, 1e-12) << worst.tensor;
    for (size_t i = 0; i < replica_steps; ++i) {
      EXPECT_NEAR(divided.steps[i].loss, copies.steps[i].loss, 1e-12 * copies.steps[i].loss);
      EXPECT_NEAR(divided.steps[i].gradient_norm / copies.steps[i].gradient_norm, 1, 1e-12);
    }
  }
}

/// Bytes of a kind of memory on one rank: between steps, and the most at any time.
struct Bytes {
  int64_t kept = 0, peak = 0;
};
std::map<Kind, Bytes> bytes_per_kind(const RunConfig& config) {
  const auto cluster = make_virtual_cluster(config, find_machine("a100-selene"));
  Trainer trainer(*cluster, config, replica_training(0.5));
  trainer.step(testing::empty_batch(config));
  const Ledger& ledger = cluster->rank(0).ledger;
  std::map<Kind, Bytes> all;
  for (const Kind kind : {Kind::parameter, Kind::gradient, Kind::optimizer, Kind::communication})
    all[kind] = {ledger.current(kind), ledger.peak(kind)};
  return all;
}

/// Rajbhandari et al. 2020, section 3 and figure 1, with gradients in float32: of Ψ weights, 2Ψ
/// bytes of weights, 4Ψ of gradients and 12Ψ of Adam's state, each divided by N or not.
TEST(Shard, BytesAreThoseOfTheFormulas) {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  c.model.layers = 4;
  c.microbatches = 2;
  const ModelConfig& m = c.model;
  const int64_t layer = m.hidden * (m.qkv_size() + m.query_size() + 3 * m.intermediate + 2);
  const int64_t table = m.vocabulary * m.hidden;
  const int64_t weights = m.layers * layer + 2 * table + m.hidden;
  for (const int n : {1, 2, 4, 8})
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::weights}) {
      SCOPED_TRACE(fmt::format("{} of {}", name_of(shard), n));
      c.data_parallel = n;
      c.shard = shard;
      const auto of = [&](Shard what) { return c.shards(what) ? n : 1; };
      const auto bytes = bytes_per_kind(c);
      const auto expect = [&](Kind kind, int64_t expected) {
        EXPECT_EQ(bytes.at(kind).kept, expected) << name_of(kind);
        EXPECT_EQ(bytes.at(kind).peak, expected) << name_of(kind);
      };
      expect(Kind::parameter, 2 * weights / of(Shard::weights));
      expect(Kind::gradient, 4 * weights / of(Shard::gradients));
      expect(Kind::optimizer, 12 * weights / of(Shard::optimizer));
      // Gradients of one layer on their way, of which this rank receives its part, while those of
      // the next are computed; and weights of two layers, which are gathered before those.
      const int64_t gradients = c.shards(Shard::gradients) ? 4 * (2 * layer + layer / n) : 0;
      const int64_t gathered = c.shards(Shard::weights) ? 2 * 2 * layer : 0;
      EXPECT_EQ(bytes.at(Kind::communication).kept, 0);
      EXPECT_EQ(bytes.at(Kind::communication).peak, gradients + gathered);
    }
}

/// A part that replicas cannot divide equally is filled up, by less than 8 elements for each.
TEST(Shard, UnitsAreFilledUp) {
  RunConfig c = small_llama();
  c.data_parallel = 3;
  const int64_t whole = bytes_per_kind(c)[Kind::parameter].kept / 4;
  c.shard = Shard::weights;
  const int64_t part = bytes_per_kind(c)[Kind::parameter].kept / 4;
  const int64_t units = c.model.layers + 3;  // and two tables, and a norm
  EXPECT_GT(3 * part, whole);
  EXPECT_LT(3 * part, whole + units * 3 * 8);
}

/// Each replica has one microbatch: the same sums are made in the same order, but for a
/// norm's.
TEST(Shard, OneMicrobatchHasTheSameBits) {
  for (const DType type : {DType::f32, DType::bf16}) {
    RunConfig c = small_gpt();
    c.type = type;
    c.data_parallel = 2;
    for (const bool narrow : {false, true})
      for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::weights}) {
        c.narrow_reduction = narrow;
        c.shard = Shard::none;
        const TrainedRun copies = trained(c, without_clipping);
        c.shard = shard;
        const TrainedRun divided = trained(c, without_clipping);
        const auto worst = worst_error(divided.end, copies.end);
        EXPECT_EQ(worst.value, 0) << worst.tensor << ", " << name_of(shard) << ", " << name_of(type)
                                  << (narrow ? ", narrow" : "");
      }
  }
}

/// A checkpoint of some replicas is for others, which divide something else.
TEST(Shard, ACheckpointIsForAnyDivision) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  const std::string folder = ::testing::TempDir() + "frugal-shard-checkpoint";
  const auto saved = [&](const RunConfig& config) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const auto cluster = make_cpu_cluster(config, 2);
    Trainer trainer(*cluster, config, without_clipping);
    trainer.step(random_batch(config, 0));
    return trainer.save_state(folder);
  };
  const auto after = [&](const RunConfig& config, const std::vector<std::string>& files) {
    const auto cluster = make_cpu_cluster(config, 2);
    Trainer trainer(*cluster, config, without_clipping);
    std::vector<std::string> paths;
    for (const std::string& file : files) paths.push_back(folder + "/" + file);
    trainer.load_state(StoredState(paths), 1);
    trainer.step(random_batch(config, 1));
    return trainer.snapshot(random_batch(config, 0)[0]);
  };
  c.data_parallel = 2;
  const HostTensors expected = after(c, saved(c));
  for (const Shard writing : {Shard::none, Shard::optimizer, Shard::weights}) {
    RunConfig writer = c;
    writer.shard = writing;
    const auto files = saved(writer);
    EXPECT_EQ(files.size(), writing == Shard::none ? 2U : 4U);
    for (const Shard reading : {Shard::none, Shard::gradients, Shard::weights}) {
      RunConfig reader = c;
      reader.shard = reading;
      const auto worst = worst_error(after(reader, files), expected);
      EXPECT_EQ(worst.value, 0) << worst.tensor << ", " << name_of(writing) << " to "
                                << name_of(reading);
    }
  }
  std::filesystem::remove_all(folder);
}

/// Weights that are loaded are those that are trained.
TEST(Shard, LoadedWeightsAreDivided) {
  RunConfig c = small_llama();
  c.data_parallel = 2;
  RunConfig other = c;
  other.seed = 8;
  const HostTensors weights = testing::snapshot_of(other, random_batch(other, 0)[0]);
  const auto loaded = [&] {
    const auto cluster = make_cpu_cluster(c, 2);
    Trainer trainer(*cluster, c, without_clipping);
    trainer.load_weights(weights);
    trainer.step(random_batch(c, 0));
    HostTensors all = trainer.snapshot(random_batch(c, 0)[0]);
    trainer.each_weight(
        [&](const std::string& name, const HostTensor& weight) { all["each/" + name] = weight; });
    return all;
  };
  const HostTensors expected = loaded();
  EXPECT_GT(worst_error(expected, weights, "weight/").value, 1e-3);
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::weights}) {
    c.shard = shard;
    const auto worst = worst_error(loaded(), expected);
    EXPECT_EQ(worst.value, 0) << worst.tensor << ", " << name_of(shard);
  }
}

TEST(Shard, WhatCannotBeIsRefusedByName) {
  RunConfig c = small_gpt();
  c.data_parallel = 4;
  c.shard_size = 2;
  testing::expect_refused(c, "shard_size is 2, which needs shard=optimizer, gradients or weights");
  c.shard = Shard::optimizer;
  c.validate();
  c.shard_size = 3;
  testing::expect_refused(
      c, "data-parallel size x context-parallel size (4) must be divisible by shard size (3)");
  c.shard_size = 0;
  c.schedule = ScheduleKind::zero_bubble_h1;
  c.validate();
  c.shard = Shard::gradients;
  testing::expect_refused(c, "shard is gradients and the schedule is zb-h1");
  c.data_parallel = 1;
  c.validate();
}

}  // namespace
}  // namespace frugal::engine
