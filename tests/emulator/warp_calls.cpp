#include "tests/emulator/thread.h"

namespace emulator {
namespace {

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

}  // namespace

unsigned answer_calls(std::span<Thread> warp) {
  unsigned answered = 0;
  for (const Thread& thread : warp) {
    if (thread.state != State::at_warp_call || !complete(thread.call, warp)) continue;
    answered |= thread.call.mask;
    answer(thread.call.mask, warp);
  }
  return answered;
}

}  // namespace emulator
