#include "harness/measure/flop_conventions.h"

#include <gmock/gmock.h>

#include "harness/settings/models.h"

namespace frugal::harness {
namespace {

/// Of a token, in the order of the conventions.
std::vector<double> of_a_token(const char* model, double sequences) {
  const ModelConfig m = find_model(model);
  std::vector<double> flops;
  for (const FlopConvention& one : flop_conventions(m, sequences))
    flops.push_back(one.flops / (sequences * static_cast<double>(m.sequence)));
  return flops;
}

/// By hand. V = 50304, h = 768, s = 1024, L = 12: tables of V h = 38 633 472 and s h = 786 432, and
/// layers of 12 h² + 13 h = 7 087 872 are N = 124 475 904 parameters with the last norm's 2 h.
/// Scores: 12 L h s = 113 246 208 of all pairs, and of (s + 1) / 2 that a token sees 56 678 400.
/// Equation 7 leaves biases and norms out: 72 L h² = 509 607 936, and 6 h V = 231 800 832.
TEST(FlopConventions, OfAGptAreThoseDerivedByHand) {
  EXPECT_THAT(of_a_token("gpt2-124m", 3),
              ::testing::ElementsAre(6 * 124475904.0, 6 * 85054464.0, 6 * 124475904.0 + 113246208,
                                     6 * (124475904.0 - 786432) + 113246208,
                                     509607936.0 + 231800832 + 113246208,
                                     509607936.0 + 231800832 + 56678400));
}

/// Meta's 8 030 261 248 parameters: two tables of 128256 · 4096 = 525 336 576 each, of which one is
/// looked up only, 32 layers of 218 112 000, and the last norm. Scores of 8192 positions in 32
/// layers of 4096 columns: 12 · 32 · 4096 · 8192 = 12 884 901 888 of all pairs. Norms have 65 ·
/// 4096 = 266 240 parameters, and do not multiply.
TEST(FlopConventions, OfALlamaAreThoseDerivedByHand) {
  const double n = 8030261248, table = 525336576, pairs = 12884901888,
               visible = pairs * 8193 / 16384;
  const double products = n - table - 266240;
  EXPECT_THAT(
      of_a_token("llama3-8b", 2),
      ::testing::ElementsAre(6 * n, 6 * 32 * 218112000.0, 6 * n + pairs, 6 * (n - table) + pairs,
                             6 * products + pairs, 6 * products + visible));
}

TEST(FlopConventions, WithoutAMaskAllPairsAreVisible) {
  const std::vector<double> bert = of_a_token("bert-355m", 1);
  EXPECT_EQ(bert[4], bert[5]);
}

}  // namespace
}  // namespace frugal::harness
