// Fused attention on a GPU against the CPU's separate one, in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "tests/support/held.h"

namespace frugal::kernels {
namespace {

struct Size {
  int64_t groups, sequence, head_size;
  bool causal;
  int64_t heads = 1;  ///< that share keys and values
  int64_t window = 0;
  float softcap = 0;
  int64_t parts = 1;  ///< of the columns in the backward pass, each of its own

  int64_t cols() const { return parts * sequence; }
  Shape queries() const {
    return heads > 1 ? Shape{groups, heads, sequence, head_size}
                     : Shape{groups, sequence, head_size};
  }
  Shape keys() const { return {groups, cols(), head_size}; }
};

/// Drawn, as numbers that bf16 has.
void draw_bf16(Held& held, uint64_t seed) {
  held.draw(seed);
  std::vector<double> values = held.values();
  for (double& x : values) x = table::round_to(DType::bf16, x);
  held.set(values);
}

struct Results {
  std::vector<double> y, dq, dk, dv;
};

Results attend(Device& device, DType type, const Size& size, uint64_t seed) {
  const Shape queries = size.queries(), keys = size.keys();
  Held q(device, type, queries), dy(device, type, queries), k(device, type, keys),
      v(device, type, keys);
  for (Held* const held : {&q, &dy, &k, &v}) draw_bf16(*held, ++seed);
  const Held y(device, type, queries), dq(device, type, queries), dk(device, type, keys),
      dv(device, type, keys),
      sums(device, accumulation_type(type), {size.groups * size.heads, size.sequence});
  FusedAttention forward{.q = q.view(),
                         .k = k.view(),
                         .v = v.view(),
                         .y = y.view(),
                         .log_sum_exp = sums.view(),
                         .scale = 1 / std::sqrt(static_cast<float>(size.head_size)),
                         .causal = size.causal,
                         .window = size.window,
                         .softcap = size.softcap,
                         .dropout = {}};
  device.execute(forward);
  Results results{y.values(), std::vector<double>(static_cast<size_t>(queries.size())), {}, {}};
  for (int64_t part = 0; part < size.parts; ++part) {
    const auto of_part = [&](const Held& held) {
      return held.view().sliced(1, part * size.sequence, size.sequence);
    };
    forward.k = of_part(k);
    forward.v = of_part(v);
    device.execute(FusedAttentionBackward{forward, dy.view(), dq.view(), of_part(dk), of_part(dv)});
    const std::vector<double> more = dq.values();
    for (size_t i = 0; i < more.size(); ++i) results.dq[i] += more[i];
  }
  results.dk = dk.values();
  results.dv = dv.values();
  return results;
}

/// ‖a − b‖ / ‖b‖.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

struct Form {
  const char* name;
  Size size;
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"causal", {6, 128, 64, true}},
      {"head_size_96", {3, 512, 96, true}},
      {"not_causal", {4, 256, 128, false}},
      {"grouped", {.groups = 3, .sequence = 256, .head_size = 64, .causal = true, .heads = 4}},
      {"window", {.groups = 2, .sequence = 384, .head_size = 128, .causal = true, .window = 100}},
      {"in_parts",
       {.groups = 3, .sequence = 256, .head_size = 64, .causal = false, .heads = 4, .parts = 2}},
      {"softcap_and_window",
       {.groups = 2,
        .sequence = 256,
        .head_size = 128,
        .causal = true,
        .heads = 2,
        .window = 100,
        .softcap = 2}}};
  return all;
}

class FusedAttentionForms : public ::testing::TestWithParam<Form> {};

TEST_P(FusedAttentionForms, AgreeWithTheCpusFloat64) {
  const Size& size = GetParam().size;
  // Only a build without cuDNN has none, and only older GPUs lack soft caps at these lengths; every
  // other refusal is a failure.
  if (const std::string why = why_no_fused_attention({.type = DType::bf16,
                                                      .head_size = size.head_size,
                                                      .cols = size.cols(),
                                                      .softcap = size.softcap > 0});
      !why.empty())
    GTEST_SKIP() << why;
  const auto gpu = make_cuda_device();
  CpuDevice cpu(2);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const Results ours = attend(*gpu, DType::bf16, size, seed);
  const Results theirs = attend(cpu, DType::f64, size, seed);
  // bf16 results, and probabilities that are rounded to it on the way.
  constexpr double bound = 1e-2;
  EXPECT_LT(distance(ours.y, theirs.y), bound);
  EXPECT_LT(distance(ours.dq, theirs.dq), bound);
  EXPECT_LT(distance(ours.dk, theirs.dk), bound);
  EXPECT_LT(distance(ours.dv, theirs.dv), bound);
}

INSTANTIATE_TEST_SUITE_P(OnTheGpu, FusedAttentionForms, ::testing::ValuesIn(forms()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FusedAttentionOnTheGpu, RefusesOtherTypesThanBf16) {
  const auto gpu = make_cuda_device();
  EXPECT_THROW(attend(*gpu, DType::f64, {1, 64, 64, true}, 1), InputError);
}

}  // namespace
}  // namespace frugal::kernels
