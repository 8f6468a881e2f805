#include "tests/emulator/streams.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"

namespace emulator {

/// Something to do, a moment to wait for, or one that this brings about.
struct Work {
  std::function<void()> execute;
  std::shared_ptr<const Moment> awaited = nullptr;
  std::shared_ptr<Moment> reached = nullptr;
  std::function<bool()> over = {};  ///< whether other GPUs have done what is waited for
  bool launch = false;
};

}  // namespace emulator

struct CUstream_st {
  int gpu, priority;
  std::deque<emulator::Work> queue;
};

struct CUevent_st {
  int gpu;
  std::shared_ptr<emulator::Moment> moment;  // null before it is recorded
};

namespace emulator {
namespace {

/// Threads come in the order in which they asked: one that asks again and again whether something
/// has ended would keep those away who were to do it.
class Queue {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    const uint64_t own = last_++;
    changed_.wait(lock, [&] { return served_ == own; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    ++served_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t last_ = 0, served_ = 0;
};

Queue calls;
thread_local int depth = 0;  // of calls within calls
/// Work that is due when so many calls were made.
std::multimap<uint64_t, std::function<void()>> later;
uint64_t calls_so_far = 0;

std::vector<CUstream_st*> streams;
int64_t launches = 0;  // in their queues
std::mt19937_64 turns{1};
int64_t until_failure = setting("FRUGAL_EMULATED_FAILURE", 0, INT_MAX);
std::array<cudaError_t, most_gpus> errors{};

cudaError_t& error_of(int gpu) { return errors.at(static_cast<size_t>(gpu)); }

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool ready(const CUstream_st* stream) {
  if (stream->queue.empty()) return false;
  const Work& next = stream->queue.front();
  return next.over ? next.over() : !next.awaited || next.awaited->passed;
}

/// A GPU's turn, from the first work that needs its memory to that of another one.
class Turn {
 public:
  void take(int gpu) {
    if (gpu_ == gpu) return;
    open_.reset();
    open_.emplace(gpu_ = gpu);
  }
  void end() {
    open_.reset();
    gpu_ = none;
  }

 private:
  static constexpr int none = -1;
  int gpu_ = none;
  std::optional<arena::Open> open_;
};

/// Streams go on after a failure with nothing but their events.
void execute(const Work& work, int gpu, Turn& turn) {
  if (work.reached) *work.reached = {true, seconds()};
  if (!work.execute) return;
  if (until_failure > 0 && --until_failure == 0) error_of(gpu) = cudaErrorIllegalAddress;
  if (error_of(gpu) != cudaSuccess) return;
  turn.take(gpu);
  work.execute();
}

/// False where no stream can go on.
bool step(Turn& turn) {
  std::vector<CUstream_st*> able;
  std::copy_if(streams.begin(), streams.end(), std::back_inserter(able), ready);
  if (able.empty()) return false;
  CUstream_st* const stream = able[turns() % able.size()];
  const Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (work.launch) --launches;
  execute(work, stream->gpu, turn);
  return true;
}

bool idle(const CUstream_st* stream) { return stream->queue.empty(); }

/// True if another thread or process may yet do what the stream waits for.
bool held(const CUstream_st* stream) { return !idle(stream) && stream->queue.front().over; }

void enqueue(cudaStream_t stream, Work work) {
  constexpr unsigned seldom = 8;
  if (stream == nullptr) {
    Turn turn;
    return execute(work, current_gpu(), turn);
  }
  if (work.launch) {
    execute_until("a launch", [] { return launches < gpu().launch_queue; });
    ++launches;
  }
  stream->queue.push_back(std::move(work));
  if (turns() % seldom == 0) execute_some();
}

}  // namespace

Call::Call() {
  if (depth++ > 0) return;
  calls.enter();
  ++calls_so_far;
  while (!later.empty() && later.begin()->first <= calls_so_far)
    later.extract(later.begin()).mapped()();
}

void Call::after(int calls_from_now, std::function<void()> what) {
  const Call call;
  later.emplace(calls_so_far + static_cast<uint64_t>(calls_from_now), std::move(what));
}

Call::~Call() {
  if (--depth == 0) calls.leave();
}

void Call::pause() {
  constexpr auto moment = std::chrono::microseconds(20);  // for those who compute, not for order
  calls.leave();
  std::this_thread::sleep_for(moment);
  calls.enter();
}

void seed_turns(uint64_t seed) { turns.seed(seed); }

void fail_after(int64_t count) {
  const Call call;
  until_failure = count;
  errors.fill(cudaSuccess);
}

cudaError_t state(int gpu) { return error_of(gpu); }

bool is_current(cudaStream_t stream) { return stream == nullptr || stream->gpu == current_gpu(); }

void push(cudaStream_t stream, std::function<void()> work, bool launch) {
  const Call call;
  enqueue(stream, {.execute = std::move(work), .launch = launch});
}

void hold(cudaStream_t stream, std::function<bool()> over, bool launch) {
  const Call call;
  enqueue(stream, {.execute = nullptr, .over = std::move(over), .launch = launch});
}

void execute_until(int gpu, const std::function<bool()>& condition) {
  const Call call;
  Turn turn;
  while (!condition()) {
    if (step(turn)) continue;
    if (error_of(gpu) != cudaSuccess) return;
    if (!anything_held()) fault("streams wait for what nobody does");
    turn.end();
    Call::pause();
  }
}

void execute_until(const char* call, const std::function<bool()>& condition) {
  constexpr int most_pauses = 200000;  // of nothing that goes on: many seconds
  const Call whole;
  Turn turn;
  for (int pauses = 0; !condition();) {
    if (step(turn)) {
      pauses = 0;
      continue;
    }
    if (error_of(current_gpu()) != cudaSuccess) return;
    if (++pauses == most_pauses) {
      std::fprintf(stderr, "emulator: %s waits for kernels that wait for other GPUs\n", call);
      std::abort();
    }
    turn.end();
    Call::pause();
  }
}

bool anything_held(int gpu) {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const auto* stream) { return stream->gpu == gpu && held(stream); });
}
bool anything_held() { return std::any_of(streams.begin(), streams.end(), held); }

void begin_holds(int gpu) {
  const Call call;
  const bool any = std::any_of(streams.begin(), streams.end(), [&](const auto* stream) {
    return stream->gpu == gpu && std::any_of(stream->queue.begin(), stream->queue.end(),
                                             [](const Work& work) { return work.over != nullptr; });
  });
  Turn turn;
  while (any && step(turn)) {
  }
}

int64_t queued() {
  const Call call;
  return launches;
}

void execute_some() {
  constexpr unsigned most = 16;
  const Call call;
  Turn turn;
  for (auto count = 1 + turns() % most; count > 0 && step(turn); --count) {
  }
}

}  // namespace emulator

using emulator::Call;
using emulator::remember;
using emulator::state;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int priority) {
  const Call call;
  *stream = emulator::streams.emplace_back(new CUstream_st{emulator::current_gpu(), priority, {}});
  return state();
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call;
  emulator::execute_until(stream->gpu, [&] { return emulator::idle(stream); });
  const int gpu = stream->gpu;
  std::erase(emulator::streams, stream);
  delete stream;
  return state(gpu);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call;
  emulator::execute_until(stream->gpu, [&] { return emulator::idle(stream); });
  return state(stream->gpu);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Call call;
  if (state(stream->gpu) != cudaSuccess) return state(stream->gpu);
  emulator::execute_some();
  return emulator::idle(stream) ? state(stream->gpu) : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  const Call call;
  emulator::execute_until(emulator::current_gpu(), [] {
    return std::all_of(emulator::streams.begin(), emulator::streams.end(), [](auto* stream) {
      return !emulator::is_current(stream) || emulator::idle(stream);
    });
  });
  return state();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  const Call call;
  const cudaError_t failed = state();
  *event = failed == cudaSuccess ? new CUevent_st{emulator::current_gpu(), nullptr} : nullptr;
  return failed;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call;
  delete event;
  return state();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  if (stream != nullptr && stream->gpu != event->gpu)
    return remember(cudaErrorInvalidResourceHandle);
  event->moment = std::make_shared<emulator::Moment>();
  emulator::enqueue(stream, {.execute = nullptr, .reached = event->moment});
  return state(event->gpu);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call;
  if (state(event->gpu) != cudaSuccess) return state(event->gpu);
  emulator::execute_some();
  return !event->moment || event->moment->passed ? state(event->gpu) : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  if (event->moment) emulator::execute_until(event->gpu, [&] { return event->moment->passed; });
  return state(event->gpu);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Call call;
  if (!from->moment || !to->moment) return remember(cudaErrorInvalidValue);
  if (from->gpu != to->gpu) return remember(cudaErrorInvalidResourceHandle);
  if (!from->moment->passed || !to->moment->passed) return remember(cudaErrorNotReady);
  *milliseconds = static_cast<float>((to->moment->seconds - from->moment->seconds) * 1e3);
  return state(from->gpu);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Call call;
  if (event->moment) emulator::enqueue(stream, {.execute = nullptr, .awaited = event->moment});
  return state(stream->gpu);
}
