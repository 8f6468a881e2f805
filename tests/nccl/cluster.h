#pragma once
#include <vector>

#include "engine/comm/communicator.h"
#include "tests/engine/support.h"

namespace frugal::testing {
using namespace engine;

inline RunConfig of_ranks(int ranks) {
  RunConfig c = small_gpt();
  c.tensor_parallel = ranks;
  return c;
}

template <class T>
Tensor write(Rank& rank, const std::vector<T>& values) {
  const Tensor tensor = rank.allocate(dtype_of<T>, {static_cast<int64_t>(values.size())});
  rank.device.copy_from_host(tensor, values.data());
  return tensor;
}

template <class T>
std::vector<T> read(Rank& rank, const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.view().size()));
  rank.device.copy_to_host(values.data(), tensor);
  return values;
}

/// Connects the ranks of all groups.
inline void use_all_groups(Rank& rank) {
  for (Communicator* group : rank.groups.all())
    if (group->size() > 1) group->barrier();
}

}  // namespace frugal::testing
