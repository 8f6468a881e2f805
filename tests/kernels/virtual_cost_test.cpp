#include <gtest/gtest.h>

#include "kernels/virtual/cost_model.h"

namespace frugal::kernels {
namespace {

/// Round numbers, so that expected times can be written down.
Machine simple_machine() {
  Machine m;
  m.name = "simple";
  m.flops_bf16 = 100e12;
  m.flops_f32 = 10e12;
  m.flops_f64 = 5e12;
  m.memory_capacity = 1000;
  m.memory_bandwidth = 2e12;
  m.memory_fraction = 0.5;  // 1 TB/s
  m.memory_latency = 1e-7;
  m.l2_bandwidth = 1e30;  // never in the way
  m.multiprocessors = 10;
  m.host_bandwidth = 20e9;
  m.host_fraction = 0.5;  // 10 GB/s
  m.launch_overhead = 4e-6;
  m.kernel_latency = 1e-6;
  m.gemm_fraction = 0.5;  // 5 TFLOP/s of bf16 for each multiprocessor
  m.gemm_sustained = 1;
  m.attention_fraction = 0.25;  // 500 GB/s
  m.tiles = {{128, 128}};
  m.devices_per_node = 4;
  m.host_memory = 8000;
  m.link_bandwidth = 200e9;
  m.link_fraction = 0.5;    // 100 GB/s
  m.gather_fraction = 0.4;  // 80 GB/s
  m.network_bandwidth = 20e9;
  m.network_fraction = 0.5;  // 10 GB/s
  m.collective_share = 0.2;
  m.collective_latency = 10e-6;
  m.link_latency = 1e-6;
  m.network_latency = 5e-6;
  return m;
}

Gemm gemm(int64_t batch, int64_t m, int64_t n, int64_t k, DType type = DType::bf16) {
  Gemm g;
  g.a = View(nullptr, type, {batch, m, k});
  g.b = View(nullptr, type, {batch, k, n});
  g.c = View(nullptr, type, {batch, m, n});
  return g;
}

TEST(CostModel, MemoryBoundOperationsTakeBytesOverBandwidth) {
  const CostModel costs(simple_machine());
  const View x(nullptr, DType::f32, {1000, 250});
  EXPECT_DOUBLE_EQ(costs.duration(Gelu{x, x}), 1e-6 + 2e6 / 1e12);
  EXPECT_DOUBLE_EQ(costs.duration(Fill{x}), 1e-6 + 1e6 / 1e12);
}

TEST(CostModel, TransfersTakeTheLinkToTheHost) {
  const CostModel costs(simple_machine());
  const View x(nullptr, DType::f32, {1000, 250});
  EXPECT_DOUBLE_EQ(costs.duration(Transfer{x, x}), 1e-6 + 1e6 / 10e9);
}

/// The larger of memory and its products, of which causal attention has those that it sees.
TEST(CostModel, FusedAttentionTakesItsProductsOnTiles) {
  const CostModel costs(simple_machine());
  const View x(nullptr, DType::bf16, {10, 256, 1000}), sums(nullptr, DType::f32, {10, 256});
  FusedAttention op{.q = x, .k = x, .v = x, .y = x, .log_sum_exp = sums, .dropout = {}};
  const double product = 4 * (1e-7 + 1000 * 2.0 * 128 * 128 / 5e12);  // 40 tiles in 4 waves
  EXPECT_DOUBLE_EQ(costs.duration(op), 1e-6 + 2 * product);
  const auto backward = [&] {
    return FusedAttentionBackward{.forward = op, .dy = x, .dq = x, .dk = x, .dv = x};
  };
  EXPECT_DOUBLE_EQ(costs.duration(backward()), 1e-6 + 5 * product);
  op.causal = true;
  const double seen = 257.0 / 512;
  EXPECT_DOUBLE_EQ(costs.duration(backward()), 1e-6 + 5 * product * seen);
  op.k = op.v = View(nullptr, DType::bf16, {10, 1, 1000});
  op.causal = false;
  Machine slow = simple_machine();
  slow.memory_bandwidth = 2e9;  // 1 GB/s
  EXPECT_DOUBLE_EQ(CostModel(slow).duration(op), 1e-6 + op.cost().bytes / 1e9);
}

TEST(CostModel, GemmTakesWholeWavesOfTiles) {
  const CostModel costs(simple_machine());
  const double k = 100000;
  const double wave = 1e-7 + k * 2 * 128 * 128 / 5e12;
  const auto time = [&](int64_t batch, int64_t m, int64_t n) {
    return costs.duration(gemm(batch, m, n, 100000));
  };
  EXPECT_DOUBLE_EQ(time(1, 128, 128), 1e-6 + wave);
  EXPECT_DOUBLE_EQ(time(1, 1, 1), 1e-6 + wave);  // a part of a tile is a tile
  EXPECT_DOUBLE_EQ(time(1, 1280, 128), 1e-6 + wave);
  EXPECT_DOUBLE_EQ(time(1, 1281, 128), 1e-6 + 2 * wave);  // an eleventh tile
  EXPECT_DOUBLE_EQ(time(1, 640, 256), 1e-6 + wave);
  EXPECT_DOUBLE_EQ(time(10, 128, 128), 1e-6 + wave);  // batches share a wave
  EXPECT_DOUBLE_EQ(time(11, 100, 100), 1e-6 + 2 * wave);
}

TEST(CostModel, GemmDependsOnTypeAndIsBoundedByMemory) {
  const CostModel costs(simple_machine());
  const double bf16 = costs.duration(gemm(1, 1280, 128, 100000)) - 1e-6 - 1e-7;
  const double f32 = costs.duration(gemm(1, 1280, 128, 100000, DType::f32)) - 1e-6 - 1e-7;
  EXPECT_NEAR(f32 / bf16, 10, 1e-9);
  const Gemm outer = gemm(1, 10000, 10000, 1);
  EXPECT_DOUBLE_EQ(costs.duration(outer), 1e-6 + outer.cost().bytes / 1e12);
}

TEST(CostModel, SmallTilesAreBoundByTheCacheAndTheBestTileIsTaken) {
  Machine machine = simple_machine();
  machine.l2_bandwidth = 1e12;  // 100 GB/s for each multiprocessor
  machine.tiles = {{32, 32}};
  const double step = std::max(2 * 32.0 * 32 / 5e12, 64 * 2 / 100e9);
  EXPECT_DOUBLE_EQ(step, 1.28e-9) << "the cache must be what binds here";
  const double store = 32 * 32 * 2 / 100e9;  // the tile's result
  const double wave = 1e-7 + 1e6 * step + store;
  EXPECT_DOUBLE_EQ(CostModel(machine).duration(gemm(1, 32, 32, 1000000)), 1e-6 + wave);
  const Gemm wide = gemm(1, 1280, 128, 1000000);
  const double small = CostModel(machine).duration(wide);
  machine.tiles = {{32, 32}, {128, 128}};
  EXPECT_LT(CostModel(machine).duration(wide), small);
  EXPECT_DOUBLE_EQ(CostModel(machine).duration(gemm(1, 32, 32, 1000000)), 1e-6 + wave);
}

TEST(CostModel, ATilesResultGoesToTheCacheTwiceWhereItIsAddedTo) {
  Machine machine = simple_machine();
  machine.l2_bandwidth = 1e12;
  Gemm g = gemm(1, 128, 128, 1000000);
  const double over = CostModel(machine).duration(g);
  g.accumulate = true;
  g.c.type = DType::f32;
  EXPECT_NEAR(CostModel(machine).duration(g) - over, 128 * 128 * (2 * 4 - 2) / 100e9, 1e-12);
}

TEST(CostModel, AProductIsNoFasterThanCanBeSustained) {
  Machine machine = simple_machine();
  const Gemm g = gemm(1, 1280, 128, 100000);
  const double best = CostModel(machine).duration(g);
  machine.gemm_sustained = 0.4;
  EXPECT_DOUBLE_EQ(CostModel(machine).duration(g), 1e-6 + 1e-7 + 1e5 * 2 * 128 * 128 / 4e12);
  machine.gemm_sustained = 0.6;
  EXPECT_DOUBLE_EQ(CostModel(machine).duration(g), best) << "the loop itself is slower";
}

/// Multiprocessors that are idle in the last wave do not make the others faster.
TEST(CostModel, WholeWavesCountWhatCanBeSustained) {
  Machine machine = simple_machine();
  machine.gemm_sustained = 0.25;
  const auto work = [&](int64_t tiles) {
    return CostModel(machine).duration(gemm(tiles, 128, 128, 100000)) - 1e-6;
  };
  EXPECT_DOUBLE_EQ(work(11), 2 * work(10));
}

/// The products of a layer and its logits that the machine's file cites, in TFLOP/s.
TEST(CostModel, ProductsOfALayerAreAsPublished) {
  const CostModel costs(find_machine("a100-selene"));
  struct Published {
    int64_t n, k;
    double rate;
  };
  for (const Published& p :
       {Published{12288, 4096, 241.6}, Published{4096, 4096, 234.9}, Published{16384, 4096, 241.1},
        Published{4096, 16384, 252.8}, Published{51200, 4096, 255.4}}) {
    const Gemm g = gemm(1, 8192, p.n, p.k);
    EXPECT_NEAR(g.cost().flops / costs.duration(g) / 1e12 / p.rate, 1, 0.05) << p.n << " " << p.k;
  }
}

TEST(CostModel, MoreWorkNeverTakesLess) {
  const CostModel costs(find_machine("a100-selene"));
  for (const int64_t fixed : {1, 96, 1000, 6144}) {
    double before[3] = {};
    for (int64_t size = 1; size < 20000; size = size * 5 / 4 + 1) {
      const double now[3] = {costs.duration(gemm(2, size, fixed, fixed)),
                             costs.duration(gemm(2, fixed, size, fixed)),
                             costs.duration(gemm(2, fixed, fixed, size))};
      for (int i = 0; i < 3; ++i) {
        EXPECT_GE(now[i], before[i]) << size << " " << fixed;
        before[i] = now[i];
      }
    }
  }
}

TEST(CostModel, NoGemmBeatsThePeak) {
  const Machine machine = find_machine("a100-selene");
  const CostModel costs(machine);
  for (const int64_t size : {128, 1024, 6144, 12288, 27648}) {
    const Gemm g = gemm(1, size, size, size);
    EXPECT_LE(g.cost().flops / costs.duration(g), machine.gemm_fraction * machine.flops_bf16);
  }
}

TEST(CostModel, CollectivesWithinANode) {
  const CostModel costs(simple_machine());
  const auto group = costs.group(4);
  EXPECT_EQ(group.nodes(), 1);
  const double part = 0.75 * 1e6 / 100e9;
  const double gathered = 0.75 * 1e6 / 80e9;
  EXPECT_DOUBLE_EQ(costs.all_gather(group, 1e6), 10e-6 + 3e-6 + gathered);
  EXPECT_DOUBLE_EQ(costs.reduce_scatter(group, 1e6), 10e-6 + 3e-6 + gathered);
  EXPECT_DOUBLE_EQ(costs.all_reduce(group, 1e6), 10e-6 + 2 * (3e-6 + part));
  EXPECT_DOUBLE_EQ(costs.all_to_all(group, 1e6), 10e-6 + 1e-6 + part);
  EXPECT_DOUBLE_EQ(costs.broadcast(group, 1e6), 10e-6 + 3e-6 + 1e6 / 100e9);
  EXPECT_DOUBLE_EQ(costs.message(true, 1e6), 10e-6 + 1e-6 + 1e6 / 100e9);
  EXPECT_DOUBLE_EQ(costs.shift(group, 1e6), 10e-6 + 1e-6 + 1e6 / 100e9);
}

TEST(CostModel, CollectivesAcrossNodes) {
  const CostModel costs(simple_machine());
  const auto full = costs.group(8);  // two nodes of four, each with four ports
  EXPECT_EQ(full.nodes(), 2);
  EXPECT_DOUBLE_EQ(costs.all_gather(full, 1e6), 10e-6 + 6e-6 + 5e-6 + 0.875 * 1e6 / (4 * 10e9));
  const CostModel::Group spread{8, 1};  // one rank to a node, as data-parallel groups have
  EXPECT_DOUBLE_EQ(costs.all_reduce(spread, 1e6), 10e-6 + 2 * (7 * 5e-6 + 0.875 * 1e6 / 10e9));
  EXPECT_DOUBLE_EQ(costs.all_to_all(full, 8e6), 10e-6 + 5e-6 + 4e6 / 10e9);
  EXPECT_DOUBLE_EQ(costs.message(false, 1e6), 10e-6 + 5e-6 + 1e6 / 10e9);
  EXPECT_DOUBLE_EQ(costs.shift(full, 1e6), 10e-6 + 5e-6 + 1e6 / 10e9);
}

/// Groups with one rank to a node, and messages, may have less of the network than others have.
TEST(CostModel, LoneRanksAndMessagesHaveTheirOwnPartOfTheNetwork) {
  Machine machine = simple_machine();
  machine.lone_fraction = 0.25;    // 5 GB/s
  machine.message_fraction = 0.2;  // 4 GB/s
  const CostModel costs(machine);
  const CostModel::Group lone{8, 1}, pairs{8, 2};
  EXPECT_DOUBLE_EQ(costs.all_reduce(lone, 1e6), 10e-6 + 2 * (7 * 5e-6 + 0.875 * 1e6 / 5e9));
  EXPECT_DOUBLE_EQ(costs.all_gather(pairs, 1e6), 10e-6 + 4e-6 + 15e-6 + 0.875 * 1e6 / 20e9);
  EXPECT_DOUBLE_EQ(costs.message_between_nodes(1, 1e6), 10e-6 + 5e-6 + 1e6 / 4e9);
  EXPECT_EQ(costs.message_between_nodes(1, 1e6, Ways::both), costs.message_between_nodes(1, 1e6));
  machine.exchange_fraction = 0.05;  // 1 GB/s
  EXPECT_DOUBLE_EQ(CostModel(machine).message_between_nodes(1, 1e6, Ways::both),
                   10e-6 + 5e-6 + 1e6 / 1e9);
  EXPECT_DOUBLE_EQ(costs.message(true, 1e6), 10e-6 + 1e-6 + 1e6 / 100e9);
}

TEST(CostModel, ManySumLittleByATree) {
  const CostModel costs(simple_machine());
  const CostModel::Group spread{100, 1}, full{64, 4};
  const auto tree = [](int levels, double within, double bytes, double bandwidth) {
    return 10e-6 + 2 * (within + levels * 5e-6 + bytes / (0.92 * 0.9 * bandwidth));
  };
  EXPECT_DOUBLE_EQ(costs.all_reduce(spread, 8), tree(7, 0, 8, 10e9));
  EXPECT_DOUBLE_EQ(costs.all_reduce(full, 8), tree(4, 3 * 1e-6, 8, 4 * 10e9));
  EXPECT_DOUBLE_EQ(costs.all_reduce(spread, 1e9), 10e-6 + 2 * (99 * 5e-6 + 0.99 * 1e9 / 10e9))
      << "much, around the ring";
  EXPECT_DOUBLE_EQ(costs.all_gather(spread, 8), 10e-6 + 99 * 5e-6 + 0.99 * 8 / 10e9)
      << "for sums alone";
}

/// Half of a buffer goes up and half of it down each way between two nodes, where a ring sends
/// nearly all of it twice. Trees are slower for buffers of some megabytes.
TEST(CostModel, TwoNodesSumMuchByTrees) {
  const CostModel costs(simple_machine());
  const CostModel::Group two{16, 8}, three{24, 8};
  constexpr double latencies = 10e-6 + 2 * (7 * 1e-6 + 5e-6);
  const auto ring = [](int nodes, double bytes) {
    const int ranks = 8 * nodes;
    return 10e-6 + 2 * ((ranks - nodes) * 1e-6 + (nodes - 1) * 5e-6 +
                        bytes * (ranks - 1) / ranks / (8 * 10e9));
  };
  constexpr double much = 256 << 20, some = 16 << 20;
  // Two ports' worth would be 160 GB/s, of which the links within a node have 100.
  EXPECT_DOUBLE_EQ(costs.all_reduce(two, much), latencies + 2 * much / (0.92 * 100e9));
  EXPECT_DOUBLE_EQ(costs.all_reduce(three, much), ring(3, much));
  EXPECT_DOUBLE_EQ(costs.all_reduce(two, some), ring(2, some)) << "at 0.6 of 92 GB/s";
  const CostModel::Group half{8, 4};
  EXPECT_DOUBLE_EQ(costs.all_reduce(half, 128 << 20),
                   10e-6 + 2 * (3e-6 + 5e-6 + (128 << 20) / (0.92 * 0.9 * 80e9)));
}

/// network_bandwidth is what a device has when all of its port send.
TEST(CostModel, MessagesShareThePortsOfTheirNode) {
  Machine machine = simple_machine();
  const auto seconds = [&](int senders) {
    return CostModel(machine).message_between_nodes(senders, 1e6) - (10e-6 + 5e-6);
  };
  EXPECT_NEAR(seconds(1), 1e6 / 10e9, 1e-12) << "a port each";
  machine.devices_per_port = 4;
  EXPECT_NEAR(seconds(4), 1e6 / 10e9, 1e-12);
  EXPECT_NEAR(seconds(2), 1e6 / 20e9, 1e-12);
  EXPECT_NEAR(seconds(1), 1e6 / 40e9, 1e-12);
  machine.devices_per_port = 20;
  machine.devices_per_node = 20;
  EXPECT_NEAR(seconds(1), 1e6 / 100e9, 1e-12) << "a device's own links are the limit";
  EXPECT_DOUBLE_EQ(CostModel(machine).message(false, 1e6), 10e-6 + 5e-6 + 1e6 / 10e9)
      << "where all send";
}

TEST(CostModel, AGroupOfOneNeedsNoTime) {
  const CostModel costs(simple_machine());
  const auto alone = costs.group(1);
  EXPECT_EQ(costs.all_reduce(alone, 1e9), 0);
  EXPECT_EQ(costs.all_to_all(alone, 1e9), 0);
  EXPECT_EQ(costs.broadcast(alone, 1e9), 0);
}

/// 20 tiles are 2 waves on all 10 multiprocessors and 3 on the 7 that a collective leaves.
TEST(CostModel, AProductBesideACollectiveHasMoreWaves) {
  Machine m = simple_machine();
  m.collective_multiprocessors = 3;
  const auto kernel = [&](const Operation& operation) {
    return *CostModel(m).kernels(operation).begin();
  };
  const double wave = 1e-7 + 100 * 2.0 * 128 * 128 / 5e12;
  const CostModel::Kernel product = kernel(gemm(1, 128 * 4, 128 * 5, 100));
  EXPECT_DOUBLE_EQ(product.alone, 1e-6 + 2 * wave);
  EXPECT_DOUBLE_EQ(product.beside, 1e-6 + 3 * wave);
  const View x(nullptr, DType::f32, {1000, 250});
  EXPECT_DOUBLE_EQ(kernel(Gelu{x, x}).beside, kernel(Gelu{x, x}).alone / 0.8) << "by its share";
}

TEST(CostModel, ProductsHaveRatesByWhatTheyAreAddedToAndByTheirLibrary) {
  Machine m = simple_machine();
  m.gemm_accumulated = 0.25;
  m.gemm_2023 = 0.4;
  Gemm added = gemm(1, 128, 128, 1000);
  added.accumulate = true;
  added.c.type = DType::f32;
  const double work = 1000 * 2.0 * 128 * 128;
  EXPECT_DOUBLE_EQ(CostModel(m).duration(gemm(1, 128, 128, 1000)), 1e-6 + 1e-7 + work / 5e12);
  EXPECT_DOUBLE_EQ(CostModel(m).duration(added), 1e-6 + 1e-7 + work / 2.5e12);
  DeviceRules early;
  early.kernels.early_products = true;
  EXPECT_DOUBLE_EQ(CostModel(m, early).duration(gemm(1, 128, 128, 1000)),
                   1e-6 + 1e-7 + work / 4e12);
}

/// A machine may say what links of a group have within a node; of several nodes it says nothing.
TEST(CostModel, GroupsWithinANodeMayHaveRatesOfTheirOwn) {
  Machine m = simple_machine();
  m.groups = {{2, 1, 50e9, 40e9, 20e9}, {2, 2, 5e9, 4e9, 2e9}};
  const CostModel costs(m);
  EXPECT_DOUBLE_EQ(costs.all_gather({2, 2, 1}, 8e6), 10e-6 + 1e-6 + 4e6 / 40e9);
  EXPECT_DOUBLE_EQ(costs.reduce_scatter({2, 2, 2}, 8e6), 10e-6 + 1e-6 + 4e6 / 2e9);
  EXPECT_DOUBLE_EQ(costs.all_reduce({2, 2, 1}, 8e6), 10e-6 + 2 * (1e-6 + 4e6 / 50e9));
  EXPECT_DOUBLE_EQ(costs.all_gather({4, 4, 1}, 8e6),
                   CostModel(simple_machine()).all_gather({4, 4, 1}, 8e6));
  EXPECT_DOUBLE_EQ(costs.all_gather({2, 1, 1}, 8e6),
                   CostModel(simple_machine()).all_gather({2, 1, 1}, 8e6));
}

}  // namespace
}  // namespace frugal::kernels
