// Fused attention on a GPU against the CPU's separate one, in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

/// A contiguous operand on a device, from and to float64 on the host.
class Operand {
 public:
  Operand(Device& device, DType type, const Shape& shape)
      : device_(device), view_(device.allocate(shape.size() * size_of(type)), type, shape) {}
  Operand(Device& device, DType type, const Shape& shape, const std::vector<Bf16>& values)
      : Operand(device, type, shape) {
    const std::vector<double> wide = widened(values);
    device.copy_from_host(
        view_, type == DType::bf16 ? static_cast<const void*>(values.data()) : wide.data());
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  ~Operand() { device_.deallocate(view_.data, view_.bytes()); }

  operator const View&() const { return view_; }  // NOLINT: an operand is a view
  std::vector<double> read() const {
    const auto size = static_cast<size_t>(view_.size());
    if (view_.type == DType::f64) {
      std::vector<double> values(size);
      device_.copy_to_host(values.data(), view_);
      return values;
    }
    std::vector<Bf16> values(size);
    device_.copy_to_host(values.data(), view_);
    return widened(values);
  }

 private:
  static std::vector<double> widened(const std::vector<Bf16>& values) {
    std::vector<double> wide;
    for (const Bf16 x : values) wide.push_back(static_cast<double>(static_cast<float>(x)));
    return wide;
  }
  Device& device_;
  View view_;
};

struct Size {
  int64_t heads, sequence, head_size;
  bool causal;
};

std::vector<Bf16> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (Bf16& x : values) x = Bf16(normal(random));
  return values;
}

struct Results {
  std::vector<double> y, dq, dk, dv;
};

Results attend(Device& device, DType type, const Size& size, uint64_t seed) {
  const Shape shape{size.heads, size.sequence, size.head_size};
  const auto drawn = [&](uint64_t which) { return random_values(shape.size(), seed + which); };
  const Operand q(device, type, shape, drawn(1)), k(device, type, shape, drawn(2)),
      v(device, type, shape, drawn(3)), dy(device, type, shape, drawn(4));
  const Operand y(device, type, shape), dq(device, type, shape), dk(device, type, shape),
      dv(device, type, shape), sums(device, accumulation_type(type), {size.heads, size.sequence});
  const FusedAttention forward{.q = q,
                               .k = k,
                               .v = v,
                               .y = y,
                               .log_sum_exp = sums,
                               .scale = 1 / std::sqrt(static_cast<float>(size.head_size)),
                               .causal = size.causal,
                               .dropout = {}};
  device.execute(forward);
  device.execute(FusedAttentionBackward{forward, dy, dq, dk, dv});
  device.synchronize();
  return {y.read(), dq.read(), dk.read(), dv.read()};
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

TEST(FusedAttentionOnTheGpu, AgreesWithTheCpusFloat64) {
  // Only a build without cuDNN has none; every other refusal is a failure.
  if (const std::string why = why_no_fused_attention(DType::bf16); !why.empty())
    GTEST_SKIP() << why;
  const auto gpu = make_cuda_device();
  CpuDevice cpu(2);
  for (const Size& size :
       {Size{6, 128, 64, true}, Size{3, 512, 96, true}, Size{4, 256, 128, false}}) {
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", head size " << size.head_size);
    const Results ours = attend(*gpu, DType::bf16, size, seed);
    const Results theirs = attend(cpu, DType::f64, size, seed);
    // bf16 results, and probabilities that are rounded to it on the way.
    constexpr double bound = 1e-2;
    EXPECT_LT(distance(ours.y, theirs.y), bound);
    EXPECT_LT(distance(ours.dq, theirs.dq), bound);
    EXPECT_LT(distance(ours.dk, theirs.dk), bound);
    EXPECT_LT(distance(ours.dv, theirs.dv), bound);
  }
}

TEST(FusedAttentionOnTheGpu, RefusesOtherTypesThanBf16) {
  const auto gpu = make_cuda_device();
  EXPECT_THROW(attend(*gpu, DType::f64, {1, 64, 64, true}, 1), InputError);
}

}  // namespace
}  // namespace frugal
