#include <gtest/gtest.h>

#include "engine/optimizer/post_validation.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

TEST(NormRelay, TellsEachStageOfThoseBeforeAndThenOfAll) {
  RunConfig run = testing::small_gpt();
  run.model.layers = 4;
  run.pipeline_parallel = 4;
  const auto cluster = make_cpu_cluster(run, 1, 20);
  cluster->run([](Rank& rank) {
    const int stage = rank.stage();
    const Tensor own = rank.allocate(DType::f64, {1});
    NormRelay relay(rank);
    for (const double batch : {1.0, 10.0}) {
      const double squares = batch * (stage + 1);
      rank.device.copy_from_host(own, &squares);
      relay.begin(own);
      EXPECT_EQ(relay.before(), batch * stage * (stage + 1) / 2);
      EXPECT_EQ(relay.so_far(), batch * (stage + 1) * (stage + 2) / 2);
      // Its sum on the way, and that of all, which comes to all but the last.
      EXPECT_EQ(rank.ledger.current(Kind::communication), stage == 3 ? 8 : 16);
      EXPECT_EQ(relay.all(), batch * 10);
    }
  });
}

}  // namespace
}  // namespace frugal::engine
