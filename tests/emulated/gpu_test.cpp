// The CUDA device on the emulated GPU: what a GPU would show by chance, or by ending the program.
#include "tests/emulator/gpu.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "engine/memory/tensor.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "tests/emulator/expect_fault.h"

namespace frugal::engine {
namespace {

using cuda::CudaError;
using ::testing::HasSubstr;

class EmulatedGpu : public ::testing::Test {
 protected:
  ~EmulatedGpu() override {
    emulator::fail_after(0);
    for (const View& view : given_) device_->deallocate(view.data, view.bytes());
  }
  View floats(int64_t count) {
    return given_.emplace_back(device_->allocate(count * 4), DType::f32, Shape{count});
  }
  std::vector<float> read(const View& view) {
    std::vector<float> values(static_cast<size_t>(view.size()));
    device_->copy_to_host(values.data(), view);
    return values;
  }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const CudaError& error) {
      return error.what();
    }
    return "";
  }

  const std::unique_ptr<Device> device_ = make_cuda_device();
  std::vector<View> given_;
};

using EmulatedGpuDeathTest = EmulatedGpu;

TEST_F(EmulatedGpuDeathTest, IsNotTheHostsToTouch) {
  const View x = floats(4);
  device_->execute(Fill{x, 1});
  device_->synchronize();
  EXPECT_FAULT(*x.as<float>() = 2);
  EXPECT_EQ(read(x)[0], 1);
}

/// Or in a call before it, where the operation has failed by then.
TEST_F(EmulatedGpu, TellsOfAnErrorInTheNextSynchronisation) {
  const View x = floats(4);
  int late = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    emulator::set_seed(seed);
    emulator::fail_after(1);
    const std::string error = error_of([&] {
      device_->execute(Fill{x, 1});
      device_->execute(Convert{x, x});
      device_->synchronize();
    });
    EXPECT_THAT(error, HasSubstr("an illegal memory access"));
    if (error.find("in convert or an operation before it") != std::string::npos) {
      EXPECT_THAT(error, HasSubstr("FRUGAL_CUDA_SYNCHRONOUS=1"));
      ++late;
    }
    EXPECT_NE(error_of([&] { device_->execute(Fill{x, 1}); }), "") << "no call succeeds after it";
    EXPECT_NE(error_of([&] { device_->synchronize(); }), "");
    emulator::fail_after(0);
  }
  EXPECT_GT(late, 0);
}

/// Runs in a process of its own: the environment is read once.
TEST_F(EmulatedGpuDeathTest, NamesTheOperationWhereItWaitsForEach) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const View x = floats(4);
  const auto fail = [&] {
    setenv("FRUGAL_CUDA_SYNCHRONOUS", "1", 1);
    emulator::fail_after(1);
    const std::string error = error_of([&] { device_->execute(Fill{x, 1}); });
    std::fputs(error.c_str(), stderr);
    std::exit(error.empty() ? 1 : 0);
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(0), "illegal memory access.* in fill");
}

/// Two streams that nothing orders end in either order; an event orders them.
TEST_F(EmulatedGpu, StreamsAreOrderedByEventsAlone) {
  const View x = floats(4);
  std::set<float> without, with;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (std::set<float>* seen : {&without, &with}) {
      emulator::set_seed(seed);
      device_->execute(Fill{x, 1});
      if (seen == &with) device_->wait(Stream::copy, device_->record(Stream::compute));
      device_->execute_on(Stream::copy, Fill{x, 2});
      seen->insert(read(x)[0]);
    }
  }
  EXPECT_EQ(without, (std::set<float>{1, 2})) << "the emulator does not show what is missing";
  EXPECT_EQ(with, (std::set<float>{2}));
}

TEST_F(EmulatedGpu, CopiesToTheHostWaitForWhatWasComputed) {
  const View x = floats(4);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    emulator::set_seed(seed);
    const auto value = static_cast<float>(seed);
    device_->execute(Fill{x, value});
    ASSERT_EQ(read(x)[0], value);
  }
}

/// Memory is given back, and handed out, in the order of the compute stream.
TEST_F(EmulatedGpu, ScratchMemoryIsTheComputeStreamsAlone) {
  const View x = floats(64),
             total = given_.emplace_back(device_->allocate(8), DType::f64, Shape{1});
  device_->execute(Fill{x, 1});
  device_->execute(Fill{total, 0});
  device_->execute(Sum{x, total});
  for (const Stream stream : {device_->stream({"messages", StreamUse::messages}), Stream::copy})
    EXPECT_THROW(device_->execute_on(stream, Sum{x, total}), std::logic_error);
  double sum = 0;
  device_->copy_to_host(&sum, total);
  EXPECT_EQ(sum, 64);
}

/// Large blocks take whole pages of 2 MiB without virtual memory.
TEST_F(EmulatedGpu, SaysThatWhatIsFreeIsNotOneBlock) {
  constexpr int64_t mebibyte = 1 << 20;
  const int64_t all = emulator::gpu().memory;
  emulator::gpu().virtual_memory = false;
  const auto device = make_cuda_device();
  emulator::gpu().memory -= free_gpu_memory() + (32 << 20) - 7 * mebibyte / 2;
  Ledger ledger(*device);
  std::string text;
  try {
    const Tensor x(ledger, Kind::activation, DType::u8, {13 * mebibyte / 4});
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  emulator::gpu().memory = all;
  emulator::gpu().virtual_memory = true;
  EXPECT_THAT(text, HasSubstr("3.5 MiB are free, but not as one block"));
}

}  // namespace
}  // namespace frugal::engine
