#pragma once
#include <map>
#include <string>
#include <utility>
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
/// its host, and the GPUs that its process may use. Where there is none left the next one takes
/// the first of those that the fewest ranks have, if they may be shared; throws InputError
/// otherwise.
std::vector<RankGpu> gpu_of_each(const std::vector<std::string>& hosts,
                                 const std::vector<std::vector<RankGpu>>& usable, bool shared);
/// How many ranks have each GPU, by host and uuid, where rank r has gpus[r] on hosts[r].
std::map<std::pair<std::string, std::string>, int> ranks_of_gpus(
    const std::vector<std::string>& hosts, const std::vector<RankGpu>& gpus);

}  // namespace frugal::harness
