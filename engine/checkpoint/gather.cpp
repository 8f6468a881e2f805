#include "engine/checkpoint/gather.h"

#include <algorithm>
#include <bit>

namespace frugal::engine {
namespace {

/// Bits of a NaN that nothing computes.
constexpr uint64_t unwritten_bits = 0x7ff8'66'72'75'67'61'6cULL;

bool is_unwritten(double value) { return std::bit_cast<uint64_t>(value) == unwritten_bits; }

/// Bytes of the values; none where no rank here has written to the tensor.
std::string bytes_of(const HostTensor& tensor) {
  if (std::ranges::all_of(tensor.values, is_unwritten)) return "";
  return {reinterpret_cast<const char*>(tensor.values.data()),
          tensor.values.size() * sizeof(double)};
}

void add_written(HostTensor& tensor, const std::string& bytes) {
  for (size_t i = 0; i < bytes.size() / sizeof(double); ++i) {
    double value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    if (!is_unwritten(value)) tensor.values.at(i) = value;
  }
}

}  // namespace

HostTensor unwritten_host_tensor(std::vector<int64_t> shape) {
  HostTensor tensor = zero_host_tensor(std::move(shape));
  std::ranges::fill(tensor.values, std::bit_cast<double>(unwritten_bits));
  return tensor;
}

void gather_written(Cluster& cluster, HostTensor& tensor) {
  if (cluster.ranks() != cluster.local_ranks())
    for (const std::string& bytes : cluster.gather(bytes_of(tensor))) add_written(tensor, bytes);
  for (double& value : tensor.values)
    if (is_unwritten(value)) value = 0;
}

}  // namespace frugal::engine
