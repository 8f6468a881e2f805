// One transformer layer, forward + backward, against this machine's own GEMM rate: the share of it
// that the layer's model FLOPs reach (equation 7 of korthikanti2022, one layer). Both are timed in
// the same run, interleaved. h 1024, a 16, s 512, b 4, dropout 0.1, nothing recomputed.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "engine/train/layer_run.h"
#include "harness/flops.h"
#include "harness/statistics.h"
#include "harness/timing.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/waiting.h"

namespace frugal {
namespace {

constexpr int64_t gemm_size = 2048;

/// A square product of random matrices on the compute stream.
class SquareGemm {
 public:
  SquareGemm(DType type, int threads) : device_(threads) {
    View* operands[] = {&gemm_.a, &gemm_.b, &gemm_.c};
    for (uint32_t i = 0; i < 3; ++i) {
      View v(nullptr, type, {gemm_size, gemm_size});
      v.data = device_.allocate(v.bytes());
      device_.execute(RandomNormal{v, 1, {1, i, 0}, {}});
      *operands[i] = v;
    }
  }
  ~SquareGemm() {
    for (const View& v : {gemm_.a, gemm_.b, gemm_.c}) device_.deallocate(v.data, v.bytes());
  }
  SquareGemm(const SquareGemm&) = delete;
  SquareGemm& operator=(const SquareGemm&) = delete;

  /// FLOP/s of one execution.
  double rate() {
    const double start = device_.now();
    device_.execute(gemm_);
    return gemm_.cost().flops / (device_.now() - start);
  }

 private:
  CpuDevice device_;
  Gemm gemm_;
};

RunConfig layer_config(DType type) {
  RunConfig c;
  c.model = {.name = "layer",
             .layers = 1,
             .hidden = 1024,
             .heads = 16,
             .sequence = 512,
             .vocabulary = 1024,
             .dropout = 0.1};
  c.micro_batch = 4;
  c.type = type;
  return c;
}

void compare(DType type, int threads, int samples) {
  const RunConfig config = layer_config(type);
  const auto cluster = make_cpu_cluster(config, threads);
  LayerRun layer(*cluster);
  SquareGemm gemm(type, threads);
  const double flops = layer_flops_eq7(config.model, static_cast<double>(config.micro_batch));
  std::vector<double> layer_rate;
  std::vector<double> gemm_rate;
  const auto run_layer = [&](bool keep) {
    const LayerTime time = layer.time();
    if (keep) layer_rate.push_back(flops / (time.forward + time.backward));
  };
  const auto run_gemm = [&](bool keep) {
    const double rate = gemm.rate();
    if (keep) gemm_rate.push_back(rate);
  };
  time_interleaved({run_layer, run_gemm}, {.warm_up = 2, .samples = samples, .budget = 60});
  const Estimate ratio = paired_ratio(layer_rate, gemm_rate);
  fmt::print(
      "{:<5} layer {:6.1f} GFLOP/s  gemm {}³ {:6.1f} GFLOP/s  ratio {:.3f} [{:.3f}, {:.3f}]\n",
      name_of(type), median(layer_rate) / 1e9, gemm_size, median(gemm_rate) / 1e9, ratio.value,
      ratio.interval->low, ratio.interval->high);
}

}  // namespace
}  // namespace frugal

int main(int argc, char** argv) {
  frugal::limit_spinning(argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int samples = argc > 2 ? std::atoi(argv[2]) : 20;
  fmt::print("{} threads, {} rounds, median and 95 % bootstrap interval\n", threads, samples);
  for (const frugal::DType type : {frugal::DType::f32, frugal::DType::bf16})
    frugal::compare(type, threads, samples);
}
