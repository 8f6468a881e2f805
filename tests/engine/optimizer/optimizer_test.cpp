// Every optimizer against its formula in float64, from block to block as PipeDream-2BW steps, and
// against itself in place.
#include "engine/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <stdexcept>

#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {

void PrintTo(OptimizerKind kind, std::ostream* out) { *out << name_of(kind); }

namespace {

using testing::small_gpt;

constexpr std::array kinds = {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                              OptimizerKind::adamw};

using Numbers = std::vector<double>;

/// All of them numbers of float32, as operations take them. The norm is beyond `clip`, so that
/// gradients are scaled.
OptimizerOptions options_of(OptimizerKind kind) {
  OptimizerOptions options;
  options.kind = kind;
  options.learning_rate = 0.0625;
  options.momentum = 0.75;
  options.beta1 = 0.875;
  options.beta2 = 0.9375;
  options.epsilon = 0x1p-20;
  options.weight_decay = 0.125;
  options.clip = 1;
  return options;
}
constexpr double norm = 4;

/// A rank's part of a model, and its weights in one block.
auto model_in_one_block(Rank& rank) {
  return in_one_block(rank, [&] { return std::make_unique<Gpt>(rank); });
}

Numbers read(Rank& rank, const View& view) {
  const Tensor wide = rank.allocate(DType::f64, view.shape);
  rank.run(Convert{view, wide});
  Numbers values(static_cast<size_t>(view.size()));
  rank.device.copy_to_host(values.data(), wide);
  return values;
}

void draw_gradients(Rank& rank, const ParameterList& parameters, int step) {
  std::mt19937_64 random(static_cast<uint64_t>(step * 64 + rank.tensor_group.rank()));
  for (const Parameter* p : parameters) {
    Numbers values(static_cast<size_t>(p->grad().size()));
    for (double& value : values) value = std::normal_distribution<double>()(random);
    const Tensor wide = rank.allocate(DType::f64, p->grad().shape);
    rank.device.copy_from_host(wide, values.data());
    rank.run(Convert{wide, p->grad()});
  }
}

/// One weight's step in float64, as the papers write it.
struct Reference {
  double weight = 0, first = 0, second = 0;

  void step(const OptimizerOptions& o, double gradient, int t) {
    double g = gradient * (o.clip / norm);
    if (o.kind == OptimizerKind::adam) g += o.weight_decay * weight;
    double change = g;
    if (o.kind == OptimizerKind::momentum) {
      change = first = o.momentum * first + (1 - o.momentum) * g;
    } else if (o.kind != OptimizerKind::sgd) {
      first = o.beta1 * first + (1 - o.beta1) * g;
      second = o.beta2 * second + (1 - o.beta2) * g * g;
      const double root = std::sqrt(second / (1 - std::pow(o.beta2, t)));
      change = first / (1 - std::pow(o.beta1, t)) / (root + o.epsilon);
    }
    const double decay = o.kind == OptimizerKind::adam ? 0 : o.weight_decay;
    weight -= o.learning_rate * (change + decay * weight);
  }
};

RunConfig two_ranks(DType type) {
  RunConfig c = small_gpt();
  c.tensor_parallel = 2;
  c.type = type;
  return c;
}

class Optimizers : public ::testing::TestWithParam<OptimizerKind> {};

/// Version t + 1 is computed from version t, where version t − 1 was.
TEST_P(Optimizers, StepFromBlockToBlockByTheirFormulas) {
  const OptimizerOptions options = options_of(GetParam());
  const auto cluster = make_cpu_cluster(two_ranks(DType::f64), 1);
  std::mutex guard;
  cluster->run([&](Rank& rank) {
    const auto [model, weights] = model_in_one_block(rank);
    const ParameterList parameters = model->parameters();
    Optimizer optimizer(rank, parameters, options_of(GetParam()));
    std::array<Tensor, 2> blocks = {weights, rank.allocate(weights.shape(), Kind::parameter)};
    rank.run(Fill{blocks[1], 0});
    const Tensor squares = rank.allocate(DType::f64, {1});
    rank.run(Fill{squares, norm * norm});
    std::vector<std::vector<Reference>> expected;
    for (const Parameter* p : parameters) {
      expected.emplace_back();
      for (const double weight : read(rank, p->view())) expected.back().push_back({weight});
    }
    for (int step = 1; step <= 4; ++step, std::swap(blocks[0], blocks[1])) {
      draw_gradients(rank, parameters, step);
      const Numbers before = read(rank, blocks[0]);
      optimizer.update().apply(options, squares, {blocks[0], blocks[1]});
      const std::lock_guard lock(guard);
      EXPECT_EQ(read(rank, blocks[0]), before) << "the older version changed";
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& p = *parameters[i];
        const Numbers gradient = read(rank, p.grad());
        const Numbers weight =
            read(rank, blocks[1].view().sliced(0, p.offset, p.view().size()).flat());
        for (size_t k = 0; k < weight.size(); ++k) {
          expected[i][k].step(options, gradient[k], step);
          ASSERT_NEAR(weight[k], expected[i][k].weight, 1e-12) << p.name << ", step " << step;
        }
      }
    }
  });
}

/// Bit for bit, with master weights and without.
TEST_P(Optimizers, MakeTheSameWeightsElsewhereAsInPlace) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto weights_after = [&](bool elsewhere) {
      const auto cluster = make_cpu_cluster(two_ranks(type), 1);
      std::array<std::vector<Numbers>, 2> after;
      cluster->run([&](Rank& rank) {
        const auto [model, weights] = model_in_one_block(rank);
        const ParameterList parameters = model->parameters();
        Optimizer optimizer(rank, parameters, options_of(GetParam()));
        Tensor from = weights;
        Tensor to = elsewhere ? rank.allocate(from.shape(), Kind::parameter) : from;
        for (int step = 1; step <= 3; ++step, std::swap(from, to)) {
          draw_gradients(rank, parameters, step);
          optimizer.step(options_of(GetParam()),
                         elsewhere ? WeightBlocks{from, to} : WeightBlocks{});
        }
        for (const Parameter* p : parameters)
          after[static_cast<size_t>(rank.tensor_group.rank())].push_back(
              read(rank, from.view().sliced(0, p->offset, p->view().size())));
      });
      return after;
    };
    EXPECT_EQ(weights_after(true), weights_after(false)) << name_of(type);
  }
}

/// Two bytes of a weight and four of its gradient; the state is master weights and moments.
TEST_P(Optimizers, HoldTheStateOfTheirKind) {
  const auto cluster = make_cpu_cluster(two_ranks(DType::bf16), 1);
  const std::array<int64_t, 4> moments = {0, 1, 2, 2};
  cluster->run([&](Rank& rank) {
    const auto [model, weights] = model_in_one_block(rank);
    const Optimizer optimizer(rank, model->parameters(), options_of(GetParam()));
    EXPECT_EQ(rank.ledger.current(Kind::optimizer),
              4 * (1 + moments[static_cast<size_t>(GetParam())]) * weights.view().size());
  });
}

/// Steps in place and from block to block, with master weights and without. The step that is
/// refused is the second: moments are there.
TEST_P(Optimizers, LeaveWeightsAsTheyAreWhereTheNormIsNotFinite) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto cluster = make_cpu_cluster(two_ranks(type), 1);
    cluster->run([&](Rank& rank) {
      const auto [model, weights] = model_in_one_block(rank);
      const ParameterList parameters = model->parameters();
      Optimizer optimizer(rank, parameters, options_of(GetParam()));
      const Tensor other = rank.allocate(weights.shape(), Kind::parameter);
      rank.run(Fill{other, 5});
      draw_gradients(rank, parameters, 1);
      optimizer.step(options_of(GetParam()));
      const Numbers before = read(rank, weights), elsewhere = read(rank, other);
      for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        draw_gradients(rank, parameters, 2);
        rank.run(Fill{parameters.back()->grad(), wrong});
        for (const WeightBlocks& blocks : {WeightBlocks{}, WeightBlocks{weights, other}})
          EXPECT_THROW(optimizer.step(options_of(GetParam()), blocks), WrongNumbers);
        EXPECT_EQ(read(rank, weights), before) << name_of(type);
        EXPECT_EQ(read(rank, other), elsewhere) << name_of(type);
      }
    });
  }
}

TEST_P(Optimizers, StepAsTheyWereMade) {
  const auto cluster = make_cpu_cluster(small_gpt(), 1);
  cluster->run([&](Rank& rank) {
    const auto [model, weights] = model_in_one_block(rank);
    Optimizer optimizer(rank, model->parameters(), options_of(GetParam()));
    for (const OptimizerKind other : kinds) {
      if (other == GetParam()) continue;
      EXPECT_THROW(optimizer.step(options_of(other)), std::logic_error);
    }
    OptimizerOptions predicting = options_of(GetParam());
    predicting.prediction = 1;
    EXPECT_THROW(optimizer.step(predicting), std::logic_error);
  });
}

TEST(Optimizer, LoadingWeightsHoldsOneState) {
  const RunConfig c = testing::small_gpt();
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  const HostTensors weights = trainer.snapshot(random_batch(c, 0)[0]);
  Ledger& ledger = cluster->rank(0).ledger;
  ledger.reset_peaks();
  trainer.load_weights(weights);
  EXPECT_EQ(ledger.peak(Kind::optimizer), ledger.current(Kind::optimizer));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Optimizers, ::testing::ValuesIn(kinds),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::engine
