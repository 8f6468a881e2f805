// In place of engine/comm/nccl*.cpp, where the program is built without NCCL.
#include "engine/comm/nccl/nccl.h"
#include "kernels/support/error.h"

namespace frugal::engine {

std::string why_no_nccl() {
  return "this build has no NCCL, which a tensor-parallel size above 1 needs on GPUs; install NCCL "
         "(packages libnccl2 and libnccl-dev) and build again, choose tensor-parallel size 1, or "
         "run one of the ranks with lone_rank=MACHINE";
}

std::string nccl_version() { return ""; }

bool ranks_may_share_gpus() { return false; }

std::string why_no_shared_gpus() { return why_no_nccl(); }

std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& /*devices*/, double /*deadline*/,
                                       const std::vector<StreamSpec>& /*streams*/,
                                       MessagesTo /*messages*/) {
  throw InputError(why_no_nccl());
}

std::unique_ptr<Group> make_nccl_process_group(World& /*world*/, const std::vector<int>& /*ranks*/,
                                               Device& /*device*/, const NcclProcess& /*own*/) {
  throw InputError(why_no_nccl());
}

}  // namespace frugal::engine
