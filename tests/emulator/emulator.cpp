#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/fiber.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

emulator::Index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr unsigned warp = 32, most_threads = 1024;
constexpr size_t stack_bytes = size_t{64} << 10;
constexpr size_t most_shared_bytes = size_t{227} << 10, guard_bytes = 64;
constexpr unsigned char unset = 0xFF;

enum class State : uint8_t { runnable, at_barrier, at_warp_barrier, ended };

struct Thread {
  Fiber fiber;
  State state = State::runnable;
  /// In exchanges, by turns: what one has shown is there until all have come to the next but one.
  uint64_t shown[2] = {};
  unsigned exchanges = 0;
};

std::vector<Thread> all;
Fiber scheduler;
unsigned current = 0;
unsigned threads = 0;
const std::function<void()>* body = nullptr;
std::mt19937_64 order{1};
alignas(16) unsigned char shared_memory[most_shared_bytes + guard_bytes];

void yield(State state) {
  const unsigned me = current;
  all[me].state = state;
  all[me].fiber.switch_to(scheduler);
  current = me;
  threadIdx = {me, 0, 0};
}

/// A thread of one block after another.
void entry() {
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

/// Lets those go on who all wait for each other. A thread that has ended waits for nobody, and
/// nobody waits for it, as on a GPU.
bool release(unsigned first, unsigned count, State waiting) {
  bool any = false;
  for (unsigned t = first; t < first + count; ++t) {
    const State state = all[t].state;
    if (state == State::ended) continue;
    if (state != waiting) return false;
    any = true;
  }
  if (!any) return false;
  for (unsigned t = first; t < first + count; ++t)
    if (all[t].state == waiting) all[t].state = State::runnable;
  return true;
}

[[noreturn]] void stuck() {
  std::fprintf(stderr, "emulator: threads of a block wait at different barriers\n");
  std::abort();
}

/// Fills the block's shared memory, and what is behind it, with what is no number.
void clear_shared(size_t bytes) { std::memset(shared_memory, unset, bytes + guard_bytes); }

void check_shared(size_t bytes) {
  if (std::all_of(shared_memory + bytes, shared_memory + bytes + guard_bytes,
                  [](unsigned char c) { return c == unset; }))
    return;
  std::fprintf(stderr, "emulator: a block wrote behind its shared memory\n");
  std::abort();
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
    all[t].exchanges = 0;
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
    bool released = false;
    for (unsigned first = 0; first < threads; first += warp)
      released |= release(first, std::min(warp, threads - first), State::at_warp_barrier);
    released |= release(0, threads, State::at_barrier);
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

void run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  threads = config.blockDim.x;
  if (all.empty()) all.resize(most_threads);
  body = &kernel;
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  std::vector<unsigned> blocks(config.gridDim.x);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::shuffle(blocks.begin(), blocks.end(), order);
  for (const unsigned block : blocks) {
    blockIdx = {block, 0, 0};
    clear_shared(config.dynamicSmemBytes);
    run_block();
    check_shared(config.dynamicSmemBytes);
  }
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> kernel) {
  if (config.blockDim.x == 0 || config.blockDim.x > most_threads || config.gridDim.x == 0 ||
      config.blockDim.y != 1 || config.blockDim.z != 1 || config.gridDim.y != 1 ||
      config.gridDim.z != 1 || config.dynamicSmemBytes > most_shared_bytes)
    return remember(cudaErrorInvalidConfiguration);
  if (!is_current(config.stream)) return remember(cudaErrorInvalidResourceHandle);
  const Call call;
  const cudaError_t before = state();
  if (gpu().computes)
    push(config.stream, [config, kernel = std::move(kernel)] { run(config, kernel); });
  return before;
}

void barrier() { yield(State::at_barrier); }
void warp_barrier() { yield(State::at_warp_barrier); }
unsigned lane() { return current % warp; }
void* dynamic_shared() { return shared_memory; }

/// Shows the warp something; returns at which of the two places.
unsigned show(uint64_t mine) {
  Thread& me = all[current];
  const unsigned place = me.exchanges++ % 2;
  me.shown[place] = mine;
  warp_barrier();
  return place;
}

uint64_t exchange(uint64_t mine, unsigned lane) {
  const unsigned place = show(mine);
  const unsigned other = current / warp * warp + lane;
  return other < threads ? all[other].shown[place] : mine;
}

unsigned ballot(bool predicate) {
  const unsigned place = show(predicate ? 1 : 0);
  unsigned votes = 0;
  const unsigned first = current / warp * warp;
  for (unsigned t = first; t < std::min(first + warp, threads); ++t)
    if (all[t].state != State::ended && all[t].shown[place] != 0) votes |= 1U << (t - first);
  return votes;
}

void set_seed(uint64_t seed) {
  const Call call;
  order.seed(seed);
  seed_turns(seed);
}

}  // namespace emulator
