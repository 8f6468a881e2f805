#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

/// CUDA's GPUs and libraries, as far as this machine and build have them. Nothing of CUDA's own is
/// needed to include this: kernels/cuda/none.cpp implements it where the program is built without.
namespace frugal::kernels {

/// One GPU, as its driver describes it.
struct Gpu {
  std::string name;          ///< "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
  int64_t memory = 0;        ///< bytes
  int64_t l2 = 0;            ///< bytes
  int multiprocessors = 0;
  int driver = 0;   ///< newest CUDA version that the driver supports: 13000 is 13.0
  int runtime = 0;  ///< of the toolkit that the program is built with
  /// Identity among all GPUs: "GPU-…", as `nvidia-smi -L` has it.
  std::string uuid = {};
};

/// "9.0"
std::string capability(const Gpu& gpu);

/// The GPUs that can be used, in CUDA's order; at least one. Throws InputError that says why there
/// is none (no CUDA in this build, no driver, no GPU) and what to do.
const std::vector<Gpu>& gpus();

/// Bytes of GPU `index` of gpus() that are free for a run: beside the driver's own, other
/// programs', and what a device takes for itself. Throws as gpus() does.
int64_t free_gpu_memory(int index = 0);

/// gpus() without throwing: empty where there are GPUs, else the reason.
std::string why_no_gpu();

/// Reason that this process cannot use one of its GPUs any more: an error that leaves it so, such
/// as an illegal access. Empty if it can. Does not wait for what is issued.
std::string why_gpu_lost();

/// True if products of float32 matrices are computed in tf32 on a GPU: FRUGAL_TF32=1.
bool tf32_products();

/// True if every operation is waited for, so that an error names the one that caused it:
/// FRUGAL_CUDA_SYNCHRONOUS is set.
bool cuda_synchronous();

/// All that decides if a GPU has fused attention.
struct FusedAttentionNeeds {
  DType type;
  int64_t head_size;  ///< elements of a query, key and value
  int64_t cols;       ///< keys of a head in one operation
  bool softcap = false, window = false;
};
/// Reason that fused attention cannot be computed on a GPU by this build, or on the first GPU if
/// there is one; empty if it can. Separate attention, which has neither soft caps nor windows, is
/// named as a way out where there is none of them.
std::string why_no_fused_attention(const FusedAttentionNeeds& needs);

/// Versions of CUDA's libraries as they were loaded, not as they were built with: "cuBLASLt", and
/// "cuDNN" where the build has it.
std::map<std::string, std::string> cuda_libraries();

/// Products of matrices whose algorithm this process has timed, and those whose algorithm it took
/// from what an earlier process had timed (FRUGAL_CACHE).
struct GemmAlgorithms {
  int64_t timed = 0, cached = 0;
};
GemmAlgorithms gemm_algorithms();

/// Issues a copy of contiguous views of one size to a CUDA device's compute stream, as the driver
/// copies. Throws std::logic_error for another device.
void copy_on_gpu(Device& device, const View& to, const View& from);

/// A device on GPU `index` of gpus(), whose compute stream the host is ahead of by so many launches
/// at most; 0: by any. Throws InputError, CudaError (a std::runtime_error).
std::unique_ptr<Device> make_cuda_device(int index = 0, int most_ahead = 0);

/// Load of a collective's kernels on those that run beside it.
struct CollectiveLoad {
  int blocks = 0;        ///< each has a multiprocessor for itself; 0: nothing is taken
  double bandwidth = 0;  ///< bytes of the GPU's memory that all read and write in a second
};
/// Reads FRUGAL_COLLECTIVE_LOAD: true (`all`) where what stands for a collective takes all that one
/// would, false (`none`, the default) where it takes nothing. Throws InputError for anything else.
bool collectives_load();
/// Makes occupy() of a CUDA device take this from now on, in 128 MiB that no ledger counts. Throws
/// std::logic_error for another device, OutOfMemory.
void load_by_collectives(Device& device, const CollectiveLoad& load);

/// Has CUDA load all kernels at first, unless the user said otherwise (CUDA_MODULE_LOADING). What
/// is loaded when it is first launched waits for the kernels that run, and one of NCCL's may wait
/// for what the launch is to bring about. To be called before anything of CUDA's; what it takes of
/// a GPU's memory is worth it only where there are several ranks.
void load_kernels_at_first();

}  // namespace frugal::kernels
