// In place of the CUDA back end, where the program is built without it.
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::kernels {
namespace {

constexpr const char* reason =
    "this build has no CUDA; install the CUDA toolkit (nvcc, cuBLAS) and build again, or use cpu "
    "or "
    "virtual";

}  // namespace

std::string capability(const Gpu&) { return ""; }

const std::vector<Gpu>& gpus() { throw InputError(reason); }

int64_t free_gpu_memory(int) { throw InputError(reason); }

std::string why_no_gpu() { return reason; }

std::string why_gpu_lost() { return ""; }

bool tf32_products() { return false; }

bool cuda_synchronous() { return false; }

std::string why_no_fused_attention(const FusedAttentionNeeds&) { return reason; }

std::map<std::string, std::string> cuda_libraries() { return {}; }

GemmAlgorithms gemm_algorithms() { return {}; }

void copy_on_gpu(Device&, const View&, const View&) { throw InputError(reason); }

void load_kernels_at_first() {}

bool collectives_load() { return false; }

void load_by_collectives(Device&, const CollectiveLoad&) { throw InputError(reason); }

std::unique_ptr<Device> make_cuda_device(int, int) { throw InputError(reason); }

}  // namespace frugal::kernels
