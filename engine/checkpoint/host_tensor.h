#pragma once
#include <map>
#include <string>
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

/// A zero tensor of the serial shape.
HostTensor serial_host_tensor(const Shape& shape);
/// Copies a rank's part from the device to its places in the serial tensor.
void gather_into(HostTensor& serial, Device& device, const View& local, const GlobalIndex& index);
/// Copies a rank's part of the serial tensor to the device.
void scatter_from(const HostTensor& serial, Device& device, const View& local,
                  const GlobalIndex& index);

}  // namespace frugal::engine
