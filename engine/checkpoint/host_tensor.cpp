#include "engine/checkpoint/host_tensor.h"

#include <functional>
#include <numeric>

namespace frugal::engine {
namespace {

/// Calls use(T()), where T is the element of a device's tensor of this type.
template <class Use>
void for_type(DType type, const Use& use) {
  switch (type) {
    case DType::f32:
      return use(float{});
    case DType::bf16:
      return use(Bf16{});
    case DType::f64:
      return use(double{});
    case DType::i32:
      return use(int32_t{});
    case DType::u8:
      return use(uint8_t{});
  }
}

}  // namespace

int64_t HostTensor::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> extents_of(const Shape& shape) {
  return {shape.extent.begin(), shape.extent.begin() + shape.dims};
}

HostTensor zero_host_tensor(std::vector<int64_t> shape) {
  HostTensor tensor{std::move(shape), {}};
  tensor.values.resize(static_cast<size_t>(tensor.size()));
  return tensor;
}

void gather_into(HostTensor& serial, Device& device, const View& local, const GlobalIndex& index) {
  for_type(local.type, [&](auto element) {
    std::vector<decltype(element)> host(static_cast<size_t>(local.size()));
    device.copy_to_host(host.data(), local);
    for (int64_t i = 0; i < local.size(); ++i)
      serial.values[static_cast<size_t>(index.at(i))] = number_of(host[static_cast<size_t>(i)]);
  });
}

void scatter_from(const HostTensor& serial, Device& device, const View& local,
                  const GlobalIndex& index) {
  for_type(local.type, [&](auto element) {
    std::vector<decltype(element)> host(static_cast<size_t>(local.size()));
    for (int64_t i = 0; i < local.size(); ++i)
      host[static_cast<size_t>(i)] =
          element_of<decltype(element)>(serial.values[static_cast<size_t>(index.at(i))]);
    device.copy_from_host(local, host.data());
  });
}

}  // namespace frugal::engine
