#pragma once
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/model/parameter.h"

namespace frugal::engine {

/// A tensor's values on the host, row-major; stored in files as `type`.
struct HostTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
  DType type = DType::f32;  ///< f32 or i32

  int64_t size() const;
};
using HostTensors = std::map<std::string, HostTensor>;

/// Extents of a shape, as files have them.
std::vector<int64_t> extents_of(const Shape& shape);
/// A tensor of zeros.
HostTensor zero_host_tensor(std::vector<int64_t> shape);

/// An element of a device or a file as a number.
template <class T>
double number_of(T element) {
  if constexpr (std::is_same_v<T, Bf16>)
    return static_cast<float>(element);
  else
    return static_cast<double>(element);
}
/// A number as an element, rounded to nearest even.
template <class T>
T element_of(double number) {
  if constexpr (std::is_same_v<T, Bf16>)
    return Bf16(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

/// Copies a rank's part from the device to its places in the serial tensor.
void gather_into(HostTensor& serial, Device& device, const View& local, const GlobalIndex& index);
/// Copies a rank's part of the serial tensor to the device.
void scatter_from(const HostTensor& serial, Device& device, const View& local,
                  const GlobalIndex& index);

}  // namespace frugal::engine
