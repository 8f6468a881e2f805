#include "harness/place/rank_gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/support/error.h"

namespace frugal::harness {

std::vector<RankGpu> gpu_of_each(const std::vector<std::string>& hosts,
                                 const std::vector<std::vector<RankGpu>>& usable, bool shared) {
  std::map<std::string, std::map<std::string, int>> taken;  // of each host, by how many ranks
  std::vector<RankGpu> all;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    std::map<std::string, int>& here = taken[hosts[rank]];
    const std::vector<RankGpu>& own = usable[rank];
    const auto gpu = std::min_element(
        own.begin(), own.end(),
        [&](const RankGpu& a, const RankGpu& b) { return here[a.uuid] < here[b.uuid]; });
    if (gpu == own.end() || (here[gpu->uuid] > 0 && !shared))
      throw InputError(fmt::format(
          "{} processes were started on {}, and rank {} finds no GPU there that no rank before it "
          "has taken, of {} that it may use; start at most as many processes on a host as it has "
          "GPUs (see nvidia-smi and CUDA_VISIBLE_DEVICES)",
          std::count(hosts.begin(), hosts.end(), hosts[rank]), hosts[rank], rank, own.size()));
    ++here[gpu->uuid];
    all.push_back(*gpu);
  }
  return all;
}

std::map<std::pair<std::string, std::string>, int> ranks_of_gpus(
    const std::vector<std::string>& hosts, const std::vector<RankGpu>& gpus) {
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (size_t rank = 0; rank < gpus.size(); ++rank) ++ranks[{hosts[rank], gpus[rank].uuid}];
  return ranks;
}

}  // namespace frugal::harness
