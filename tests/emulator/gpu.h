#pragma once
#include <cstdint>
#include <limits>
#include <vector>

/// The emulated GPUs, for tests: what they are, and what happens to them.
namespace emulator {

/// Ends the program, and says what no GPU or driver would have done.
[[noreturn]] void fault(const char* what);
/// Ends the program where the system refuses something, and says why by errno.
[[noreturn]] void fault_of_system(const char* what);

constexpr int most_gpus = 8;

/// Properties of each GPU; all are alike.
struct Gpu {
  /// True if kernels and products compute. Without, everything is issued, allocated and waited for
  /// as ever, so that runs of any size end soon; their numbers mean nothing.
  bool computes = true;
  int count = 1;                  ///< how many there are, at most `most_gpus`
  std::vector<int> visible = {};  ///< which of the machine's these are; the first where it is empty
  int multiprocessors = computes ? 1 : 132;
  int64_t memory = int64_t{139} << 30;
  bool virtual_memory = true;   ///< whether the driver has it
  bool loads_at_first = false;  ///< the code of all kernels, before anything else
  /// Bytes of it that a communicator of NCCL takes for each block that it may use.
  int64_t nccl_memory = int64_t{1} << 20;
  /// Version of NCCL, as it counts: 23007 of 2.30.7; 0: it does not say.
  int nccl_version = 0;
  /// Blocks of NCCL's kernels that run at a time, as the multiprocessors of an H100.
  int nccl_places = 132;
  /// Launches that have not begun, of all streams of the process: who launches one more waits.
  int64_t launch_queue = 1024;
  /// Once one is asked for a larger block, as a measured peak's operands are, they compute no more:
  /// small models train, and their records have a peak that means nothing.
  int64_t largest_block = std::numeric_limits<int64_t>::max();
};

/// Reads the environment: FRUGAL_EMULATED_COMPUTE=0, they do not compute; FRUGAL_EMULATED_GPUS, how
/// many the machine has; CUDA_VISIBLE_DEVICES, which of them; FRUGAL_EMULATED_LARGEST, a block's
/// MiB; FRUGAL_EMULATED_NAME, that of a GPU of hardware/; CUDA_MODULE_LOADING=EAGER, kernels are
/// loaded at first. Read by the first call, as CUDA does. What tests change, they change before it.
Gpu& gpu();
/// Number that a device of this process has on the machine.
int number_on_machine(int device);

/// Seeds the order of threads, blocks and streams.
void set_seed(uint64_t seed);

/// The `count`th piece of work from now on that a stream executes is to touch what is nobody's, as
/// every call about its GPU says from then on, or nothing, when `count` is 0; at first what
/// FRUGAL_EMULATED_FAILURE says.
void fail_after(int64_t count);

/// Number of times that cuBLASLt was asked for algorithms: what is chosen once is asked for once.
int64_t asked_for_algorithms();
/// Number of products that were issued so far.
int64_t products();

}  // namespace emulator
