#pragma once
#include <cstdint>
#include <span>

#include "kernels/support/fiber.h"

namespace emulator {

enum class State : uint8_t { runnable, at_barrier, at_warp_call, ended };

/// What lanes of a warp do together. Lanes meet that do the same.
enum class Together : uint8_t { shuffle, shuffle_xor, shuffle_up, shuffle_down, ballot, barrier };

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

/// Lets those lanes of a warp go on whose masks name none that is not at the same call. Returns
/// their mask.
unsigned answer_calls(std::span<Thread> warp);

}  // namespace emulator
