// Apart from engine/comm/nccl.cpp, which tests compile a second time.
#include <nccl.h>

#include "engine/comm/nccl.h"
#include "kernels/support/version.h"

namespace frugal {

std::string why_no_nccl() { return ""; }

std::string nccl_version() {
  int number = 0;
  return ncclGetVersion(&number) == ncclSuccess ? library_version(static_cast<size_t>(number)) : "";
}

}  // namespace frugal
