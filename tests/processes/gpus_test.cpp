// Ranks that are processes, a GPU each, beside ranks that are threads. GPUs are emulated.
#include <gmock/gmock.h>

#include "engine/train/trainer.h"
#include "tests/cuda/losses.h"
#include "tests/engine/support.h"
#include "tests/nccl/bodies.h"
#include "tests/nccl/divisions.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

using engine::same_bits;

/// GPUs are the emulator's, of which every process has all.
std::unique_ptr<Cluster> gpu_of_process(const RunConfig& config, Transport transport) {
  return make_cuda_process_cluster(config, world(), groups(), world().rank(), transport);
}

template <class T>
class GpuCollectives : public ::testing::Test {};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(GpuCollectives, Types, engine::TypeNames);

/// Sums what is computed just before, and the sum is computed with: nothing but the collective
/// orders them. What was sent may be overwritten.
template <class T>
std::vector<T> between_computations(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor given = write(rank, values), data = blank<T>(rank, values.size()),
               sum = blank<T>(rank, values.size());
  rank.run(Convert{given, data});
  group.all_reduce(data).wait();
  rank.run(Convert{data, sum});
  rank.run(Fill{data, 0});
  if (group.rank() > 0) group.receive(data, group.rank() - 1).wait();
  if (group.rank() + 1 < group.size()) group.send(sum, group.rank() + 1).wait();
  rank.run(Fill{sum, 0});
  group.barrier();
  return read<T>(rank, data);
}

TYPED_TEST(GpuCollectives, AreThoseOfThreads) {
  const RunConfig config = of_replicas(world().size());
  const auto threads = make_cpu_cluster(config, 1);
  auto bodies = collective_bodies<TypeParam>();
  bodies.push_back({"between computations", true, between_computations<TypeParam>});
  for (const Transport transport : {Transport::nccl, Transport::host}) {
    const auto process = gpu_of_process(config, transport);
    for (const auto& body : bodies)
      for (const int64_t count : {1, 7, 5001}) {
        const auto of_threads = results(*threads, body, count);
        EXPECT_TRUE(same_bits(results(*process, body, count).front(),
                              of_threads[static_cast<size_t>(world().rank())]))
            << name_of(transport) << ", " << body.name << ", rank " << world().rank() << ", "
            << count;
      }
  }
}

/// Small models, divided in every way that has as many ranks as there are processes.
class GpuLosses : public ::testing::TestWithParam<engine::Variant> {};

TEST_P(GpuLosses, OfProcessesAreThoseOfThreads) {
  RunConfig run = engine::tiny_gpt();
  GetParam().choose(run);
  if (run.ranks() != world().size()) GTEST_SKIP() << run.ranks() << " ranks";
  constexpr int64_t steps = 3;
  std::vector<std::vector<double>> of_processes;
  for (const Transport transport : {Transport::nccl, Transport::host}) {
    const auto cluster = gpu_of_process(run, transport);
    of_processes.push_back(engine::losses(*cluster, run, steps));
  }
  if (world().rank() == 0) {  // the others wait for it at the next test's beginning
    const auto cluster = make_cuda_cluster(run);
    EXPECT_THAT(of_processes, ::testing::Each(engine::losses(*cluster, run, steps)));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, GpuLosses, ::testing::ValuesIn(engine::divisions()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal::testing
