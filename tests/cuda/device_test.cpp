// The CUDA device itself: memory, streams, errors.
#include "kernels/cpu/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

constexpr StreamSpec communication{"communication", StreamUse::collectives};

class CudaDeviceTest : public ::testing::Test {
 protected:
  View floats(int64_t count) { return {device_->allocate(count * 4), DType::f32, {count}}; }
  std::vector<float> read(const View& view) {
    std::vector<float> values(static_cast<size_t>(view.size()));
    device_->copy_to_host(values.data(), view);
    return values;
  }
  const std::unique_ptr<Device> device_ = make_cuda_device();
};

TEST_F(CudaDeviceTest, SaysWhatTheGpuIs) {
  const Gpu& gpu = gpus().front();
  EXPECT_FALSE(gpu.name.empty());
  EXPECT_GT(gpu.memory, int64_t{1} << 30);
  EXPECT_GT(gpu.multiprocessors, 0);
  EXPECT_EQ(device_->name(), "cuda");
  EXPECT_TRUE(device_->backed());
}

TEST_F(CudaDeviceTest, KeepsMemoryForTheNextRequestOfItsSize) {
  void* const first = device_->allocate(100 << 20);
  const int64_t reserved = device_->reserved();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0U);
  device_->deallocate(first, 100 << 20);
  EXPECT_EQ(device_->reserved(), reserved);
  void* const second = device_->allocate(100 << 20);
  EXPECT_EQ(second, first);
  EXPECT_EQ(device_->reserved(), reserved);
  device_->deallocate(second, 100 << 20);
}

TEST_F(CudaDeviceTest, GivesBackWhatIsFreeBeforeItRefuses) {
  constexpr int64_t bytes = 100 << 20;
  device_->deallocate(device_->allocate(bytes), bytes);
  const int64_t reserved = device_->reserved();
  EXPECT_THROW(device_->allocate(gpus().front().memory * 2), OutOfMemory);
  EXPECT_LE(device_->reserved(), reserved - bytes);
}

/// Memory of the host is page-locked once, and what is brought there and back is what it was.
TEST_F(CudaDeviceTest, TransfersToTheHostAndBack) {
  const View x = floats(1 << 20), y = floats(1 << 20);
  void* const first = device_->allocate_on_host(x.bytes());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
  device_->deallocate_on_host(first, x.bytes());
  void* const memory = device_->allocate_on_host(x.bytes());
  EXPECT_EQ(memory, first);
  const View host(memory, DType::f32, x.shape);
  device_->execute(Fill{x, 3});
  device_->wait(Stream::copy, device_->record(Stream::compute));
  device_->execute_on(Stream::copy, Transfer{.from = x, .to = host});
  device_->execute_on(Stream::copy, Transfer{.from = host, .to = y});
  EXPECT_EQ(read(y), std::vector<float>(1 << 20, 3));
  EXPECT_EQ(host.as<float>()[12345], 3);
  device_->deallocate_on_host(memory, x.bytes());
  for (const View& view : {x, y}) device_->deallocate(view.data, view.bytes());
}

TEST_F(CudaDeviceTest, SaysWhatWasMissing) {
  const int64_t more_than_there_is = gpus().front().memory * 2;
  try {
    device_->allocate(more_than_there_is);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested, more_than_there_is);
    EXPECT_GT(error.missing(), gpus().front().memory / 2);
  }
  const View x = floats(16);  // and goes on
  device_->execute(Fill{x, 2});
  EXPECT_EQ(read(x), std::vector<float>(16, 2));
  device_->deallocate(x.data, x.bytes());
}

/// Times by events: the host stops for none of them, and they are told when it waits anyhow.
TEST_F(CudaDeviceTest, TimesOperationsWithoutAStop) {
  const View x = floats(64), y = floats(1 << 16);
  std::vector<std::string_view> seen;
  double all = 0;
  int told = 0;
  const auto timed = [&, calls = 0](const Operation& operation, double seconds) mutable {
    EXPECT_GE(seconds, 0);
    told = ++calls;  // who is told is one, and keeps what it counts
    seen.push_back(name_of(operation));
    all += seconds;
  };
  device_->time_operations(timed);
  for (int step = 0; step < 2; ++step) {  // the second with the first one's events
    seen.clear();
    const double waits = device_->work().calls.synchronisations;
    for (int i = 0; i < 200; ++i) device_->execute(Fill{y, 1});
    device_->execute(Gelu{.x = x, .y = x});
    EXPECT_TRUE(seen.empty());
    EXPECT_EQ(device_->work().calls.synchronisations, waits);
    device_->synchronize();
    ASSERT_EQ(seen.size(), 201U);
    EXPECT_EQ(seen.front(), "fill");
    EXPECT_EQ(seen.back(), "gelu");
  }
  EXPECT_GT(all, 0);
  device_->execute(Fill{x, 1});  // who no longer asks is not told
  device_->time_operations({});
  device_->synchronize();
  EXPECT_EQ(seen.size(), 201U);
  EXPECT_EQ(told, 402);
  for (const View& view : {x, y}) device_->deallocate(view.data, view.bytes());
}

/// Seconds are of what a stream is given, and not of what was there before.
TEST_F(CudaDeviceTest, SaysWhatAStreamTakes) {
  constexpr double before = 0.2, pause = 2e-3;
  for (const Stream stream : {Stream::compute, device_->stream(communication)}) {
    device_->occupy(stream, before, "before");
    int issued = 0;
    const double taken = device_->seconds_on(stream, [&] {
      ++issued;
      device_->occupy(stream, pause, "pause");
    });
    EXPECT_EQ(issued, 1);
    EXPECT_GE(taken, pause);
    EXPECT_LT(taken, before);
  }
}

/// Kernels of our own, what a library is asked for, and when the host waits.
TEST_F(CudaDeviceTest, CountsWhatTheHostCallsFor) {
  const View x = floats(64), y = floats(64);
  const auto matrix = [](const View& view) { return view.reshaped({8, 8}); };
  const auto calls_of = [&](const std::function<void()>& action) {
    DeviceWork before = device_->work();
    action();
    DeviceWork done = device_->work();
    done.add(before, -1);
    return done;
  };
  const DeviceWork filled = calls_of([&] {
    device_->execute(Fill{x, 2});
    device_->execute(Fill{y, 0});
  });
  EXPECT_EQ(filled.calls.launches, 2);
  EXPECT_EQ(filled.calls.library_calls, 0);
  EXPECT_EQ(filled.total().count, 2);
  EXPECT_EQ(filled.total().cost.bytes, 2 * 256);
  const DeviceWork product =
      calls_of([&] { device_->execute(Gemm{.a = matrix(x), .b = matrix(x), .c = matrix(y)}); });
  EXPECT_EQ(product.calls.launches, 1) << "and not those that chose an algorithm";
  EXPECT_EQ(product.calls.library_calls, 1);
  EXPECT_EQ(product.total().cost.flops, 2 * 8 * 8 * 8);
  const DeviceWork waited = calls_of([&] {
    device_->synchronize();
    EXPECT_EQ(read(y), std::vector<float>(64, 32));
  });
  EXPECT_EQ(waited.calls.copies, 1);
  EXPECT_EQ(waited.calls.synchronisations, 2);
  EXPECT_EQ(waited.calls.launches, 0);
  for (const View& view : {x, y}) device_->deallocate(view.data, view.bytes());
}

TEST_F(CudaDeviceTest, StreamsWaitForEachOther) {
  const View x = floats(1 << 20);
  device_->execute(Fill{x, 1});
  device_->synchronize();
  const double start = device_->now();
  device_->occupy(device_->stream(communication), 0.02, "test");
  device_->execute_on(device_->stream(communication), Fill{x, 2});
  device_->wait(Stream::compute, device_->record(device_->stream(communication)));
  device_->execute(Convert{x, x});
  EXPECT_EQ(read(x)[12345], 2);
  EXPECT_GE(device_->now() - start, 0.02);
  device_->deallocate(x.data, x.bytes());
}

/// Streams through memory of its own, for as long as the stand-in that takes nothing.
TEST_F(CudaDeviceTest, WhatStandsForACollectiveTakesWhatItWould) {
  const auto device = make_cuda_device();
  const int64_t before = device->reserved();
  load_by_collectives(*device, {.blocks = 2, .bandwidth = 1e9});
  EXPECT_GE(device->reserved() - before, int64_t{128} << 20);
  device->synchronize();
  const double start = device->now();
  device->occupy(device->stream(communication), 0.02, "test");
  device->synchronize();
  EXPECT_GE(device->now() - start, 0.02);
  EXPECT_THROW(load_by_collectives(*std::make_unique<CpuDevice>(1), {}), std::logic_error);
}

TEST_F(CudaDeviceTest, ComputesBesideWhatIsModelled) {
  const View x = floats(1 << 20);
  device_->execute(Fill{x, 1});  // a kernel is loaded with its first launch, which may wait
  device_->synchronize();
  // Whoever waits does so for all of it, every time; a host that others delay is in time once.
  const double modelled = 0.05;
  double fastest = 1;
  for (int attempt = 0; attempt < 20 && fastest >= modelled; ++attempt) {
    device_->synchronize();
    const double start = device_->now();
    device_->occupy(device_->stream(communication), modelled, "test");
    device_->execute(Fill{x, 3});
    const Event done = device_->record(Stream::compute);
    device_->wait(Stream::copy, done);
    fastest = std::min(fastest, device_->now() - start);
  }
  EXPECT_LT(fastest, modelled) << "issuing waited";
  EXPECT_EQ(read(x)[0], 3);
  device_->deallocate(x.data, x.bytes());
}

}  // namespace
}  // namespace frugal::kernels
