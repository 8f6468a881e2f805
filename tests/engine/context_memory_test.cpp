#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/model/layer.h"
#include "kernels/virtual/device.h"
#include "tests/engine/support.h"

// A rank that stands for all those that share a sequence holds what one of them holds, to the byte,
// and its attention is charged for the bytes that the papers say.
namespace frugal::engine {
namespace {

using testing::small_llama;

struct Shared {
  int ranks;
  ContextKind context;
  DType type;
  int tensor_parallel;
  bool recompute;
  int ulysses_size = 0;
};

void PrintTo(const Shared& s, std::ostream* out) {
  *out << fmt::format("{}_c{}_u{}_t{}_{}_{}", name_of(s.context), s.ranks, s.ulysses_size,
                      s.tensor_parallel, name_of(s.type), s.recompute ? "full" : "none");
}

std::vector<Shared> all_shared() {
  std::vector<Shared> shared;
  for (const ContextKind context : {ContextKind::ulysses, ContextKind::ring, ContextKind::zigzag})
    for (const DType type : {DType::f32, DType::bf16})
      for (const bool recompute : {false, true}) {
        for (const int ranks : {2, 4, 8}) shared.push_back({ranks, context, type, 1, recompute});
        shared.push_back({4, context, type, 2, recompute});
        if (context == ContextKind::ulysses) continue;
        for (const int heads : {2, 4}) shared.push_back({8, context, type, 1, recompute, heads});
        shared.push_back({4, context, type, 2, recompute, 2});
      }
  return shared;
}

RunConfig config_of(const Shared& s) {
  RunConfig c = small_llama();
  c.context_parallel = s.ranks;
  c.context = s.context;
  c.ulysses_size = s.ulysses_size;
  c.type = s.type;
  c.tensor_parallel = s.tensor_parallel;
  c.sequence_parallel = s.tensor_parallel > 1;
  c.recompute = s.recompute ? Recompute::full : Recompute::none;
  c.mlp_chunks = 3;
  return c;
}

class OneOfThoseThatShare : public ::testing::TestWithParam<Shared> {
 protected:
  const RunConfig config = config_of(GetParam());
  const Machine machine = find_machine("a100-selene");
  /// The one that stands for all among the whole ones: the first that divide heads, of the last of
  /// a ring.
  int place() const {
    return (config.context_parallel - config.head_ranks()) * config.tensor_parallel;
  }
};

TEST_P(OneOfThoseThatShare, HoldsWhatOneOfAllHolds) {
  const auto whole = make_cpu_cluster(config, 1);
  const auto lone = make_lone_cpu_cluster(config, 1, machine);
  const auto described = make_virtual_cluster(config, machine);
  const Batch batch = random_batch(config, 0);
  const StepResult expected = Trainer(*whole, config, {}).step(batch);
  for (Cluster* cluster : {lone.get(), described.get()}) {
    EXPECT_EQ(Trainer(*cluster, config, {}).step(batch).flops, expected.flops) << "of all ranks";
    const Ledger &one = cluster->rank(0).ledger, &same = whole->rank(place()).ledger;
    EXPECT_EQ(one.peak_per_kind(), same.peak_per_kind());
    EXPECT_EQ(one.at_peak(), same.at_peak());
    EXPECT_TRUE(cluster->rank(0).first_of_stage());
  }
  for (int i = 0; i < whole->local_ranks(); ++i)
    EXPECT_LE(whole->rank(i).ledger.peak(), described->rank(0).ledger.peak()) << i;
}

INSTANTIATE_TEST_SUITE_P(All, OneOfThoseThatShare, ::testing::ValuesIn(all_shared()),
                         ::testing::PrintToStringParamName());

/// Links of 1 B/s without latencies, which computation does not slow: seconds are bytes.
Machine counting_machine() {
  Machine machine = find_machine("a100-selene");
  machine.devices_per_node = 8;
  machine.link_bandwidth = machine.link_fraction = 1;
  machine.collective_latency = machine.link_latency = machine.compute_share = 0;
  return machine;
}

/// Elements of bf16 that one layer's collectives of this name put on each link, forward and
/// backward.
std::pair<double, double> elements_of_layer(const RunConfig& config, std::string_view collective) {
  const auto cluster = make_virtual_cluster(config, counting_machine());
  std::pair<double, double> elements;
  cluster->run([&](Rank& rank) {
    auto& device = dynamic_cast<VirtualDevice&>(rank.device);
    const auto so_far = [&] {
      double bytes = 0;
      for (const VirtualDevice::Interval& interval : device.log())
        if (interval.name == collective) bytes += interval.end - interval.begin;
      return bytes / 2;
    };
    TransformerLayer layer(rank, 0);
    const Tensor x =
        rank.allocate({config.local_sequence(), config.micro_batch, config.model.hidden});
    const Pass pass(rank);
    TransformerLayer::Saved saved;
    device.keep_log(true);
    layer.forward(pass, x, saved);
    elements.first = so_far();
    layer.backward(pass, x, std::move(saved));
    elements.second = so_far() - elements.first;
  });
  return elements;
}

/// A model as the papers count: N tokens, hidden size h = heads · head size.
RunConfig counted(ContextKind context, int ranks, int64_t key_value_heads, int ulysses_size = 0) {
  RunConfig c = small_llama();
  c.model.head_width = 0;
  c.model.hidden = 64;
  c.model.kv_heads = key_value_heads;
  c.type = DType::bf16;
  c.context_parallel = ranks;
  c.context = context;
  c.ulysses_size = ulysses_size;
  return c;
}

/// DeepSpeed-Ulysses, section 3.2: all-to-alls of 3Nh and Nh over P ranks put 4Nh/P on each link.
/// That counts the part of a rank that it keeps, 1/P. In backward the context is exchanged again.
/// With fewer keys and values than queries, the three become 1 + 2 · heads exchanged / heads.
///
/// Ring attention, section 3: keys and values of N/P tokens in each of P − 1 steps; in backward
/// their gradients besides, of twice the bytes, in each of P.
///
/// In two dimensions all-to-alls are those of u ranks that have a part of r to themselves; a ring
/// has r − 1 steps of keys and values of its own heads, and N/r tokens.
void expect_volume(const RunConfig& c) {
  const int heads = c.head_ranks(), ring = c.ring_ranks();
  const auto part = static_cast<double>(c.group_sequence() * c.micro_batch);
  const auto hidden = static_cast<double>(c.model.hidden);
  const double sent = (heads - 1.0) / heads;
  // Each rank has at least one head of keys and values.
  const double exchanged = static_cast<double>(std::max<int64_t>(c.model.kv_heads, heads)) / 8;
  const auto [forward, backward] = elements_of_layer(c, "all-to-all");
  EXPECT_NEAR(forward, (2 + 2 * exchanged) * part * hidden * sent, 1e-6);
  EXPECT_NEAR(backward, (3 + 2 * exchanged) * part * hidden * sent, 1e-6);
  const double step = ring > 1 ? 2 * part * exchanged * hidden : 0;
  const auto [around, home] = elements_of_layer(c, "shift");
  EXPECT_NEAR(around, (ring - 1) * step, 1e-6);
  EXPECT_NEAR(home, (ring - 1) * step + ring * 2 * step, 1e-6);
}

TEST(ContextVolume, IsThePapers) {
  for (const int64_t keys : {8, 2})
    for (const int ranks : {2, 4, 8}) {
      expect_volume(counted(ContextKind::ulysses, ranks, keys));
      for (const ContextKind kind : {ContextKind::ring, ContextKind::zigzag}) {
        expect_volume(counted(kind, ranks, keys));
        if (ranks > 2) expect_volume(counted(kind, ranks, keys, ranks / 2));
      }
    }
}

/// FLOPs of each rank of one layer's passes with c ranks, beyond what it computes alone.
std::vector<double> flops_of_ranks(ContextKind kind, int ranks, int ulysses_size = 0) {
  RunConfig c = counted(kind, ranks, 8, ulysses_size);
  c.type = DType::f32;
  const auto cluster = make_cpu_cluster(c, 1);
  std::vector<double> flops(static_cast<size_t>(ranks));
  Trainer(*cluster, c, {}).step(random_batch(c, 0));
  for (int i = 0; i < ranks; ++i) flops[static_cast<size_t>(i)] = cluster->rank(i).flops.total();
  return flops;
}

/// Pairs of a query and a key: a rank of contiguous parts sees r s²/c² and its own half; of
/// an early and a late piece each sees s²/2c, as with heads divided. Own parts count their
/// diagonal.
TEST(RingWork, IsThatOfThePositions) {
  for (const int ranks : {2, 4, 8}) {
    const std::vector<double> even = flops_of_ranks(ContextKind::zigzag, ranks);
    const std::vector<double> uneven = flops_of_ranks(ContextKind::ring, ranks);
    const std::vector<double> divided = flops_of_ranks(ContextKind::ulysses, ranks);
    for (size_t i = 0; i < even.size(); ++i) {
      EXPECT_EQ(even[i], even[0]) << i;
      EXPECT_EQ(even[i], divided[i]) << i;
    }
    if (ranks > 2) {
      EXPECT_EQ(flops_of_ranks(ContextKind::zigzag, ranks, 2), even);
    }
    const RunConfig c = counted(ContextKind::ring, ranks, 8);
    const auto n = static_cast<double>(c.group_sequence());
    const auto sequences = static_cast<double>(c.model.layers * c.model.hidden * c.micro_batch);
    const double products = 2 * (FusedAttention::products + FusedAttentionBackward::products);
    for (size_t i = 1; i < uneven.size(); ++i)
      EXPECT_EQ(uneven[i] - uneven[i - 1], products * n * n * sequences) << i;
  }
}

}  // namespace
}  // namespace frugal::engine
