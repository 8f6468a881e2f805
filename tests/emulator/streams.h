#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/emulator/cuda_host.h"

/// Streams of the emulated GPUs. What is issued waits in its stream's queue. It is executed when
/// somebody waits for it, or by chance, the streams' turns drawn at random: what is ordered by
/// nothing happens in any order, mostly as late as it can.
namespace emulator {

/// A call of a library, while it exists: the program's threads make one at a time, whichever GPU it
/// is about. What is called within it is a part of it.
class Call {
 public:
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Lets other threads make theirs.
  static void pause();
  /// Has `what` happen within a call, when so many more have been made.
  static void after(int calls, std::function<void()> what);
};

/// Moment of a stream: whether it has passed, and when.
struct Moment {
  bool passed = false;
  double seconds = 0;
};

/// Issues work; executed at once where `stream` is null, which waits for no other stream, as those
/// of cudaStreamNonBlocking have it. launch: not a part of the launch before it.
void push(cudaStream_t stream, std::function<void()> work, bool launch = true);
/// Holds the stream until other GPUs have done what `over` asks for.
void hold(cudaStream_t stream, std::function<bool()> over, bool launch = true);

/// Executes what is issued until the condition holds, or that GPU has failed. Aborts where neither
/// can be: where nothing is left to execute, and no stream waits for other GPUs.
void execute_until(int gpu, const std::function<bool()>& condition);
/// Executes for a call that every thread's calls may wait for: aborts, naming it, where nothing
/// goes on for seconds, because who could go on waits too.
void execute_until(const char* call, const std::function<bool()>& condition);
/// True if kernels wait for other GPUs on this one, or on any of the process.
bool anything_held(int gpu);
bool anything_held();
/// Executes what can be, where this GPU has a kernel in a queue that will wait for other GPUs: on a
/// GPU, which does not wait until somebody waits for it, that would have begun.
void begin_holds(int gpu);
/// Executes something, if there is anything.
void execute_some();
/// Launches that have not begun, of the process.
int64_t queued();
void seed_turns(uint64_t seed);

/// GPU of the calling thread, as cudaSetDevice() has it.
int current_gpu();
/// True if the stream is the current GPU's, as it has to be where a kernel is launched.
bool is_current(cudaStream_t stream);

/// Result of every call about a GPU: cudaSuccess until work fails. Work that a call itself issues
/// fails later.
cudaError_t state(int gpu = current_gpu());
/// A number of the environment, from 0 to `most`. Aborts where it is something else.
int setting(const char* name, int otherwise, int most);

/// Keeps a call's own error for cudaGetLastError(), and returns it.
cudaError_t remember(cudaError_t error);

}  // namespace emulator
