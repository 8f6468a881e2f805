#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulator/cuda_runtime.h"

emulator::Index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr unsigned warp = 32, most_threads = 1024;
constexpr size_t stack_bytes = size_t{64} << 10;
constexpr size_t most_shared_bytes = size_t{227} << 10, guard_bytes = 64;
constexpr unsigned char unset = 0xA5;

enum class State : uint8_t { runnable, at_barrier, at_warp_barrier, ended };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::runnable;
  uint64_t shown = 0;  ///< in an exchange
};

std::vector<Fiber> fibers;
ucontext_t scheduler;
unsigned current = 0;
unsigned threads = 0;
const std::function<void()>* body = nullptr;
std::mt19937_64 order{1};
alignas(16) unsigned char shared_memory[most_shared_bytes + guard_bytes];

void entry() {
  (*body)();
  fibers[current].state = State::ended;
  // uc_link leads back to the scheduler.
}

void yield(State state) {
  Fiber& fiber = fibers[current];
  fiber.state = state;
  const unsigned me = current;
  swapcontext(&fiber.context, &scheduler);
  current = me;
  threadIdx = {me, 0, 0};
}

void resume(unsigned thread) {
  current = thread;
  threadIdx = {thread, 0, 0};
  swapcontext(&scheduler, &fibers[thread].context);
}

/// Lets those go on who all wait for each other. A thread that has ended waits for nobody, and
/// nobody waits for it, as on a GPU.
bool release(unsigned first, unsigned count, State waiting) {
  bool any = false;
  for (unsigned t = first; t < first + count; ++t) {
    const State state = fibers[t].state;
    if (state == State::ended) continue;
    if (state != waiting) return false;
    any = true;
  }
  if (!any) return false;
  for (unsigned t = first; t < first + count; ++t)
    if (fibers[t].state == waiting) fibers[t].state = State::runnable;
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

/// On its own: getcontext() comes back twice, and nothing of its caller may lie in registers then.
__attribute__((noinline)) void prepare(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = std::make_unique<char[]>(stack_bytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, entry, 0);
  fiber.state = State::runnable;
}

void run_block() {
  for (unsigned t = 0; t < threads; ++t) prepare(fibers[t]);
  std::vector<unsigned> turn(threads);
  std::iota(turn.begin(), turn.end(), 0U);
  std::vector<unsigned> asleep((threads + warp - 1) / warp, 0);
  for (;;) {
    std::shuffle(turn.begin(), turn.end(), order);
    bool ran = false;
    for (const unsigned t : turn) {
      if (fibers[t].state != State::runnable || asleep[t / warp] > 0) continue;
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
    if (fibers[t].state != State::ended) stuck();
}

}  // namespace

cudaError_t run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  threads = config.blockDim.x;
  if (threads == 0 || threads > most_threads || config.gridDim.x == 0 || config.blockDim.y != 1 ||
      config.dynamicSmemBytes > most_shared_bytes || config.blockDim.z != 1 ||
      config.gridDim.y != 1 || config.gridDim.z != 1)
    return cudaErrorInvalidConfiguration;
  if (fibers.empty()) fibers.resize(most_threads);
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
  return cudaSuccess;
}

void barrier() { yield(State::at_barrier); }
void warp_barrier() { yield(State::at_warp_barrier); }
unsigned lane() { return current % warp; }
void* dynamic_shared() { return shared_memory; }

uint64_t exchange(uint64_t mine, unsigned lane) {
  fibers[current].shown = mine;
  warp_barrier();
  const unsigned other = current / warp * warp + lane;
  const uint64_t theirs = other < threads ? fibers[other].shown : mine;
  warp_barrier();  // before anybody shows something else
  return theirs;
}

unsigned ballot(bool predicate) {
  fibers[current].shown = predicate ? 1 : 0;
  warp_barrier();
  unsigned votes = 0;
  const unsigned first = current / warp * warp;
  for (unsigned t = first; t < std::min(first + warp, threads); ++t)
    if (fibers[t].state != State::ended && fibers[t].shown != 0) votes |= 1U << (t - first);
  warp_barrier();
  return votes;
}

void set_seed(uint64_t seed) { order.seed(seed); }

}  // namespace emulator

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration ? "invalid configuration" : "an error";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration ? "cudaErrorInvalidConfiguration" : "cudaError";
}
