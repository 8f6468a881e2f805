#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/support/fiber.h"
#include "tests/emulator/cuda_pipeline_primitives.h"
#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/shared.h"
#include "tests/emulator/streams.h"

emulator::Index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

enum class State : uint8_t { runnable, at_barrier, at_warp_call, ended };

struct WarpCall {
  Together what = Together::barrier;
  unsigned mask = 0;
  uint64_t shown = 0;
  unsigned from = 0;  ///< the lane whose `shown` a shuffle answers

  uint64_t answer = 0;
};

struct Thread {
  frugal::kernels::Fiber fiber;
  State state = State::runnable;
  WarpCall call;
};

constexpr unsigned warp = 32, most_threads = 1024;
constexpr size_t stack_bytes = size_t{64} << 10;
/// Threads of a block, for blocks one after another. Never destroyed: a fiber that is suspended
/// would unwind its stack, of which the thread sanitizer has forgotten the calls by then.
std::vector<Thread>& all = *new std::vector<Thread>;
frugal::kernels::Fiber scheduler;
unsigned current = 0;
unsigned threads = 0;
const std::function<void()>* body = nullptr;
std::mt19937_64 order{1};

void yield(State state) {
  const unsigned me = current;
  all[me].state = state;
  all[me].fiber.switch_to(scheduler);
  current = me;
  threadIdx = {me, 0, 0};
}

/// A thread of one block after another.
[[noreturn]] frugal::kernels::Fiber& entry() {
  for (;;) {
    (*body)();
    yield(State::ended);
  }
}

void resume(unsigned thread) {
  current = thread;
  threadIdx = {thread, 0, 0};
  scheduler.switch_to(all[thread].fiber);
}

/// Lets the block go on where all wait at a barrier. A thread that has ended waits for nobody, and
/// nobody waits for it, as on a GPU.
bool release_block() {
  bool any = false;
  for (unsigned t = 0; t < threads; ++t) {
    const State state = all[t].state;
    if (state == State::ended) continue;
    if (state != State::at_barrier) return false;
    any = true;
  }
  if (!any) return false;
  for (unsigned t = 0; t < threads; ++t)
    if (all[t].state == State::at_barrier) all[t].state = State::runnable;
  order_shared();
  return true;
}

[[noreturn]] void stuck() {
  for (unsigned t = 0; t < threads; ++t)
    if (all[t].state == State::at_warp_call)
      fault("a mask names a lane that does not come to the same call of its warp");
  fault("threads of a block wait at different barriers");
}

bool named(unsigned mask, size_t lane) { return (mask >> lane & 1U) != 0; }

/// A lane that has ended, or that there is not, never arrives.
bool complete(const WarpCall& call, std::span<const Thread> warp) {
  for (size_t lane = 0; lane < 32; ++lane) {
    if (!named(call.mask, lane)) continue;
    if (lane >= warp.size() || warp[lane].state != State::at_warp_call) return false;
    const WarpCall& other = warp[lane].call;
    if (other.what != call.what || other.mask != call.mask) return false;
  }
  return true;
}

void answer(unsigned mask, std::span<Thread> warp) {
  uint64_t votes = 0;
  for (size_t lane = 0; lane < warp.size(); ++lane)
    if (named(mask, lane) && warp[lane].call.shown != 0) votes |= uint64_t{1} << lane;
  for (size_t lane = 0; lane < warp.size(); ++lane) {
    if (!named(mask, lane)) continue;
    WarpCall& call = warp[lane].call;
    call.answer = call.what == Together::ballot ? votes : warp[call.from].call.shown;
    warp[lane].state = State::runnable;
  }
}

/// Lets those lanes of a warp go on whose masks name none that is not at the same call. Returns
/// their mask.
unsigned answer_calls(std::span<Thread> warp) {
  unsigned answered = 0;
  for (const Thread& thread : warp) {
    if (thread.state != State::at_warp_call || !complete(thread.call, warp)) continue;
    answered |= thread.call.mask;
    answer(thread.call.mask, warp);
  }
  return answered;
}

/// Answers calls of warps. True if a lane of any goes on.
bool answer_warps() {
  bool any = false;
  for (unsigned first = 0; first < threads; first += warp) {
    const std::span lanes(all.data() + first, std::min(warp, threads - first));
    const unsigned together = answer_calls(lanes);
    any |= together != 0;
    // A barrier of some lanes orders nothing here.
    if (together == ~0U && lanes[0].call.what == Together::barrier) order_shared(first / warp);
  }
  return any;
}

/// Now and then a warp stands still while others go on, as far as they can without it: it may find
/// overwritten what it was to read.
void doze(std::vector<unsigned>& asleep) {
  constexpr unsigned rarely = 64, longest = 256;
  for (unsigned& rounds : asleep) {
    if (rounds > 0)
      --rounds;
    else if (asleep.size() > 1 && order() % rarely == 0)
      rounds = static_cast<unsigned>(order() % longest);
  }
}

void run_block() {
  for (unsigned t = 0; t < threads; ++t) {
    if (!all[t].fiber.started()) all[t].fiber.start(entry, stack_bytes);
    all[t].state = State::runnable;
  }
  std::vector<unsigned> turn(threads);
  std::iota(turn.begin(), turn.end(), 0U);
  std::vector<unsigned> asleep((threads + warp - 1) / warp, 0);
  for (;;) {
    std::shuffle(turn.begin(), turn.end(), order);
    bool ran = false;
    for (const unsigned t : turn) {
      if (all[t].state != State::runnable || asleep[t / warp] > 0) continue;
      resume(t);
      ran = true;
    }
    bool released = answer_warps();
    released |= release_block();
    if (ran || released)
      doze(asleep);
    else if (std::any_of(asleep.begin(), asleep.end(), [](unsigned a) { return a > 0; }))
      std::fill(asleep.begin(), asleep.end(), 0U);
    else
      break;
  }
  for (unsigned t = 0; t < threads; ++t)
    if (all[t].state != State::ended) stuck();
}

/// Kernels are compiled for it.
void need_fused_multiply_add() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("fma")) fault("kernels need a processor with fused multiply-add");
#endif
}

void run(const cudaLaunchConfig_t& config, const void* kernel, const std::function<void()>& call) {
  threads = config.blockDim.x;
  if (all.empty()) {
    need_fused_multiply_add();
    all = std::vector<Thread>(most_threads);
  }
  body = &call;
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  std::vector<unsigned> blocks(config.gridDim.x);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::shuffle(blocks.begin(), blocks.end(), order);
  for (const unsigned block : blocks) {
    blockIdx = {block, 0, 0};
    begin_shared(kernel, config.dynamicSmemBytes);
    run_block();
    end_copies();
    end_shared();
  }
}

/// Loads a kernel's code when it is first launched, unless all was loaded at first. Loading waits
/// until no kernel waits for other ranks on the GPU.
void load(const void* kernel) {
  static std::set<std::pair<const void*, int>> loaded;
  if (gpu().loads_at_first || !loaded.emplace(kernel, current_gpu()).second) return;
  begin_holds(current_gpu());
  execute_until("loading a kernel", [] { return !anything_held(current_gpu()); });
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body) {
  if (config.blockDim.x == 0 || config.blockDim.x > most_threads || config.gridDim.x == 0 ||
      config.blockDim.y != 1 || config.blockDim.z != 1 || config.gridDim.y != 1 ||
      config.gridDim.z != 1)
    return remember(cudaErrorInvalidConfiguration);
  if (!is_current(config.stream)) return remember(cudaErrorInvalidResourceHandle);
  const Call call;
  if (allows_shared(kernel, config.dynamicSmemBytes) != cudaSuccess)
    return remember(cudaErrorInvalidValue);
  load(kernel);
  const cudaError_t before = state();
  if (gpu().computes)
    push(config.stream, [config, kernel, body = std::move(body)] { run(config, kernel, body); });
  return before;
}

void barrier() { yield(State::at_barrier); }
unsigned lane() { return current % warp; }

uint64_t with_warp(Together what, unsigned mask, uint64_t shown, unsigned from) {
  if ((mask >> lane() & 1U) == 0) fault("a lane calls its warp with a mask that does not name it");
  if ((mask >> from & 1U) == 0) fault("a lane reads another that its mask does not name");
  all[current].call = {what, mask, shown, from};
  yield(State::at_warp_call);
  return all[current].call.answer;
}

void set_seed(uint64_t seed) {
  const Call call;
  order.seed(seed);
  seed_turns(seed);
}

}  // namespace emulator
