#include "engine/comm/nccl/nccl.h"
#include "tests/main/on_gpu.h"
#include "tests/nccl/setting.h"

namespace {

/// Why no two ranks can be here; empty where they can.
std::string why_no_ranks() {
  if (std::string why = frugal::engine::why_no_nccl(); !why.empty()) return why;
  if (std::string why = frugal::kernels::why_no_gpu(); !why.empty()) return why;
  if (frugal::testing::most_ranks() < 2)
    return "there is one GPU, and ranks may share it only where NCCL_MULTI_RANK_GPU_ENABLE is 1";
  return frugal::kernels::gpus().size() < 2 ? frugal::engine::why_no_shared_gpus() : "";
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  frugal::kernels::load_kernels_at_first();
  return frugal::testing::run_on_gpu(why_no_ranks());
}
