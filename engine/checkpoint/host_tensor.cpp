#include "engine/checkpoint/host_tensor.h"

#include <functional>
#include <numeric>

namespace frugal::engine {
namespace {

template <class T>
void gather_as(HostTensor& serial, Device& device, const View& local, const GlobalIndex& index) {
  std::vector<T> host(static_cast<size_t>(local.size()));
  device.copy_to_host(host.data(), local);
  for (size_t e = 0; e < host.size(); ++e) {
    const auto at = static_cast<size_t>(index.at(static_cast<int64_t>(e)));
    if constexpr (std::is_same_v<T, Bf16>)
      serial.values[at] = static_cast<float>(host[e]);
    else
      serial.values[at] = static_cast<double>(host[e]);
  }
}

template <class T>
void scatter_as(const HostTensor& serial, Device& device, const View& local,
                const GlobalIndex& index) {
  std::vector<T> host(static_cast<size_t>(local.size()));
  for (size_t e = 0; e < host.size(); ++e) {
    const double value = serial.values[static_cast<size_t>(index.at(static_cast<int64_t>(e)))];
    if constexpr (std::is_same_v<T, double>)
      host[e] = value;
    else
      host[e] = T(static_cast<float>(value));
  }
  device.copy_from_host(local, host.data());
}

template <class Action>
void for_type(DType type, const Action& action) {
  switch (type) {
    case DType::f32:
      action(float{});
      break;
    case DType::bf16:
      action(Bf16{});
      break;
    case DType::f64:
      action(double{});
      break;
    case DType::i32:
      action(int32_t{});
      break;
    case DType::u8:
      action(uint8_t{});
      break;
  }
}

}  // namespace

int64_t HostTensor::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

HostTensor serial_host_tensor(const Shape& shape) {
  HostTensor tensor;
  for (int i = 0; i < shape.dims; ++i) tensor.shape.push_back(shape[i]);
  tensor.values.resize(static_cast<size_t>(shape.size()));
  return tensor;
}

void gather_into(HostTensor& serial, Device& device, const View& local, const GlobalIndex& index) {
  for_type(local.type, [&](auto zero) { gather_as<decltype(zero)>(serial, device, local, index); });
}

void scatter_from(const HostTensor& serial, Device& device, const View& local,
                  const GlobalIndex& index) {
  for_type(local.type,
           [&](auto zero) { scatter_as<decltype(zero)>(serial, device, local, index); });
}

}  // namespace frugal::engine
