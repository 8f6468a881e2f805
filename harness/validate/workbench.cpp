#include "harness/validate/workbench.h"

#include <algorithm>

#include "harness/peaks/collective_rates.h"
#include "harness/peaks/peak.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

constexpr int most_threads_as_ranks = 4;

int ranks_of_target(const Target& target) {
  if (target.kind() == DeviceKind::cuda) return static_cast<int>(gpus().size());
  return std::min(target.threads().value_or(1), most_threads_as_ranks);
}

}  // namespace

Workbench::Workbench(const Target& target, bool quick)
    : target_(target), quick_(quick), one_(one_rank(target)), ranks_(ranks_of_target(target)) {
  if (target.kind() == DeviceKind::cpu) core_ = one_rank(*make_target({.threads = 1}));
}

std::vector<Rank*> Workbench::devices(Rank& of_processor) {
  if (!on_gpu()) return {&of_processor};
  if (!why_no_ranks().empty()) return {&rank()};
  std::vector<Rank*> all;
  for (int i = 0; i < ranks_; ++i) all.push_back(&cluster_of_ranks().rank(i));
  return all;
}

Cluster& Workbench::cluster_of_ranks() {
  if (several_) return *several_;
  const RunConfig config = config_of_ranks(ranks_);
  if (target_.kind() == DeviceKind::cpu) {
    try {
      several_ = make_target({.threads = ranks_, .pinning = Pinning::cores})->cluster(config);
      return *several_;
    } catch (const InputError&) {  // too few cores: wherever the system puts them
    }
  }
  several_ = target_.cluster(config);
  return *several_;
}

std::string Workbench::why_no_ranks() const {
  // On GPUs they are threads, which nobody has to ask for: a rank launches nothing behind a
  // collective that has not ended, so none waits for ever.
  const RunConfig config = config_of_ranks(ranks_);
  if (ranks_ > 1)
    return on_gpu() ? why_not_on_gpus(config, ranks_, ranks_) : target_.why_not(config);
  return on_gpu() ? "there is one GPU" : "there is one kernel thread";
}

}  // namespace frugal::harness
