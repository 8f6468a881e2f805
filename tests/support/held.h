#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/device.h"
#include "kernels/table/operation_table.h"

namespace frugal::kernels {

/// A tensor in the device's memory.
class Held {
 public:
  Held(Device& device, DType type, const Shape& shape)
      : device_(device), view_(device.allocate(shape.size() * size_of(type)), type, shape) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { device_.deallocate(view_.data, view_.bytes()); }

  const View& view() const { return view_; }
  /// Part `which` of `of` that share the last extent, as matrices [batch, rows, d].
  View matrices(int64_t which, int64_t of) const {
    const int64_t row = view_.shape[1] * view_.shape[2], d = view_.shape[2] / of;
    return view_.strided(which * d, {view_.shape[1], view_.shape[0], d}, {of * d, row, 1});
  }
  std::vector<double> values() const {
    std::vector<std::byte> bytes(static_cast<size_t>(view_.bytes()));
    device_.copy_to_host(bytes.data(), view_);
    return table::load(view_.type, bytes.data(), view_.size());
  }
  /// Rounds them to its type.
  void set(const std::vector<double>& values) {
    std::vector<std::byte> bytes(static_cast<size_t>(view_.bytes()));
    table::store(view_.type, values, bytes.data());
    device_.copy_from_host(view_, bytes.data());
  }
  void draw(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<double> values(static_cast<size_t>(view_.size()));
    for (double& value : values) value = std::normal_distribution<double>()(random);
    set(values);
  }

 private:
  Device& device_;
  View view_;
};

/// max |a − b| / max |b|.
inline double error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    difference = std::max(difference, std::abs(a[i] - b[i]));
    magnitude = std::max(magnitude, std::abs(b[i]));
  }
  return difference / magnitude;
}

}  // namespace frugal::kernels
