#pragma once
#include <string>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// The GPU of a rank that is a process.
struct RankGpu {
  int index = 0;  ///< among those that its process may use
  std::string name = {};
  std::string uuid = {};  ///< Gpu::uuid

  bool operator==(const RankGpu&) const = default;
};

/// Each rank takes the first GPU that its process may use and no rank before it on its host has:
/// where all may use all of a host's, the first rank there the first one, and so on. Of each rank
/// its host, and the GPUs that its process may use. Throws InputError where there is none left.
std::vector<RankGpu> gpu_of_each(const std::vector<std::string>& hosts,
                                 const std::vector<std::vector<RankGpu>>& usable);

}  // namespace frugal::harness
