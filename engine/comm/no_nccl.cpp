// In place of engine/comm/nccl*.cpp, where the program is built without NCCL.
#include "engine/comm/nccl.h"
#include "kernels/support/error.h"

namespace frugal {

std::unique_ptr<Group> make_nccl_group(const std::vector<Device*>& /*devices*/,
                                       double /*deadline*/) {
  throw InputError(
      "this build has no NCCL, which a tensor-parallel size above 1 needs on GPUs; install NCCL "
      "(packages libnccl2 and libnccl-dev) and build again, or choose tensor-parallel size 1");
}

}  // namespace frugal
