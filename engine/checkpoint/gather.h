#pragma once
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "engine/checkpoint/host_tensor.h"
#include "engine/cluster.h"

namespace frugal::engine {

/// What all ranks have, in their order, of what those that are here have. Every process of the
/// cluster calls it.
template <class T>
std::vector<T> of_all_ranks(Cluster& cluster, const std::vector<T>& here) {
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

/// A tensor that ranks write their parts of, those of other processes their own. Nothing is in it
/// yet.
HostTensor unwritten_host_tensor(const Shape& shape);
/// What all ranks have written, on the first process; what none has is zero. On the others it is
/// not whole.
void complete(Cluster& cluster, HostTensor& tensor);

}  // namespace frugal::engine
