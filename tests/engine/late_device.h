#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "engine/namespace.h"
#include "kernels/cpu/device.h"

namespace frugal::testing {
using namespace engine;

/// A processor whose streams but the compute stream do everything as late as they may: when another
/// stream waits for it, or the host does. What is to be copied until then is nothing that can be
/// used, so that who does not wait computes something else.
class LateDevice final : public Device {
 public:
  std::string name() const override { return "late"; }
  bool backed() const override { return true; }

  void* allocate(int64_t bytes) override { return cpu_.allocate(bytes); }
  void deallocate(void* address, int64_t bytes) noexcept override {
    cpu_.deallocate(address, bytes);
  }
  void* allocate_on_host(int64_t bytes) override { return cpu_.allocate_on_host(bytes); }
  void deallocate_on_host(void* address, int64_t bytes) noexcept override {
    cpu_.deallocate_on_host(address, bytes);
  }
  int64_t reserved() const override { return cpu_.reserved(); }

  void occupy(Stream /*stream*/, double /*seconds*/, std::string_view /*name*/) override {}

  /// The number of operations of the stream so far.
  Event record(Stream stream) override {
    if (stream == Stream::compute) return {.time = static_cast<double>(computed_)};
    handles_.push_back(stream);
    return {.time = static_cast<double>(late_.at(stream.index).size()), .handle = &handles_.back()};
  }
  void wait(Stream stream, const Event& event) override {
    const auto count = static_cast<size_t>(event.time);
    if (event.handle == nullptr)
      known_.at(stream.index) = std::max(known_.at(stream.index), count);
    else
      finish(*static_cast<const Stream*>(event.handle), count);
  }
  void synchronize() override {
    for (uint8_t i = 0; i < most_streams; ++i) finish({i}, late_.at(i).size());
  }
  double now() override { return cpu_.now(); }

  void copy_to_host(void* host, const View& from) override {
    synchronize();
    cpu_.copy_to_host(host, from);
  }
  void copy_from_host(const View& to, const void* host) override {
    synchronize();
    cpu_.copy_from_host(to, host);
  }

  int transfers = 0;  ///< so far

 private:
  void run_on(Stream stream, const Operation& operation) override {
    if (stream == Stream::compute) {
      ++computed_;
      return cpu_.execute(operation);
    }
    const Transfer& transfer = std::get<Transfer>(operation);
    EXPECT_EQ(known_.at(stream.index), computed_) << "it begins before its operand is computed";
    constexpr int not_a_number = 0xff;
    std::memset(transfer.to.data, not_a_number, static_cast<size_t>(transfer.to.bytes()));
    late_.at(stream.index).push_back(transfer);
    ++transfers;
  }
  /// The first `count` that the stream was given.
  void finish(Stream stream, size_t count) {
    for (size_t& done = done_.at(stream.index); done < count; ++done)
      cpu_.execute(late_.at(stream.index).at(done));
  }

  CpuDevice cpu_{1};
  size_t computed_ = 0;
  std::array<size_t, most_streams> known_{};  ///< of what is computed, that a stream waits for
  std::array<std::vector<Transfer>, most_streams> late_;
  std::array<size_t, most_streams> done_{};
  std::deque<Stream> handles_;
};

}  // namespace frugal::testing
