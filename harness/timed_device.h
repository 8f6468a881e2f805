#pragma once
#include <functional>
#include <memory>

#include "kernels/device.h"

namespace frugal {

/// A device that says how long each operation of its compute stream took, for which it waits before
/// and after it.
class TimedDevice final : public Device {
 public:
  using OnOperation = std::function<void(const Operation&, double seconds)>;
  TimedDevice(std::unique_ptr<Device> device, OnOperation seen)
      : device_(std::move(device)), seen_(std::move(seen)) {}

  std::string name() const override { return device_->name(); }
  bool backed() const override { return device_->backed(); }
  void* allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void deallocate(void* address, int64_t bytes) noexcept override {
    device_->deallocate(address, bytes);
  }
  void* allocate_on_host(int64_t bytes) override { return device_->allocate_on_host(bytes); }
  void deallocate_on_host(void* address, int64_t bytes) noexcept override {
    device_->deallocate_on_host(address, bytes);
  }
  int64_t reserved() const override { return device_->reserved(); }

  void occupy(Stream stream, double seconds, std::string_view name) override {
    device_->occupy(stream, seconds, name);
  }
  Event record(Stream stream) override { return device_->record(stream); }
  void wait(Stream stream, const Event& event) override { device_->wait(stream, event); }
  void synchronize() override { device_->synchronize(); }
  double now() override { return device_->now(); }
  void copy_to_host(void* host, const View& from) override { device_->copy_to_host(host, from); }
  void copy_from_host(const View& to, const void* host) override {
    device_->copy_from_host(to, host);
  }

 private:
  void run_on(Stream stream, const Operation& operation) override {
    if (stream != Stream::compute) return device_->execute_on(stream, operation);
    device_->synchronize();
    const double begin = device_->now();
    device_->execute(operation);
    device_->synchronize();
    seen_(operation, device_->now() - begin);
  }

  const std::unique_ptr<Device> device_;
  const OnOperation seen_;
};

}  // namespace frugal
