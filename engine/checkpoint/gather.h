#pragma once
#include <cstring>
#include <type_traits>
#include <vector>

#include "engine/checkpoint/host_tensor.h"
#include "engine/cluster/cluster.h"

namespace frugal::engine {

/// Values of all ranks, in their order, from those of the ranks that are here. Every process of the
/// cluster calls it.
template <class T>
std::vector<T> gather_all(Cluster& cluster, const std::vector<T>& here) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (cluster.ranks() == cluster.local_ranks()) return here;
  std::vector<T> all;
  for (const std::string& values :
       cluster.exchange({reinterpret_cast<const char*>(here.data()), here.size() * sizeof(T)})) {
    const size_t first = all.size();
    all.resize(first + values.size() / sizeof(T));
    std::memcpy(all.data() + first, values.data(), values.size());
  }
  return all;
}

/// A tensor of nothing yet, to which the ranks of each process write their parts.
HostTensor unwritten_host_tensor(std::vector<int64_t> shape);
/// Collects the parts of all ranks on the first process; elements that none has written become
/// zero. On the other processes the tensor is not whole.
void gather_written(Cluster& cluster, HostTensor& tensor);

}  // namespace frugal::engine
