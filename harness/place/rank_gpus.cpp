#include "harness/place/rank_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/support/error.h"

namespace frugal::harness {

std::vector<RankGpu> gpu_of_each(const std::vector<std::string>& hosts,
                                 const std::vector<std::vector<RankGpu>>& usable) {
  std::map<std::string, std::set<std::string>> taken;  // of each host
  std::vector<RankGpu> all;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    std::set<std::string>& here = taken[hosts[rank]];
    const std::vector<RankGpu>& own = usable[rank];
    const auto free = std::find_if(own.begin(), own.end(),
                                   [&](const RankGpu& gpu) { return !here.contains(gpu.uuid); });
    if (free == own.end())
      throw InputError(fmt::format(
          "{} processes were started on {}, and rank {} finds no GPU there that no rank before it "
          "has taken, of {} that it may use; start at most as many processes on a host as it has "
          "GPUs (see nvidia-smi and CUDA_VISIBLE_DEVICES)",
          std::count(hosts.begin(), hosts.end(), hosts[rank]), hosts[rank], rank, own.size()));
    here.insert(free->uuid);
    all.push_back(*free);
  }
  return all;
}

}  // namespace frugal::harness
