#pragma once
#include <functional>
#include <string>

#include "engine/optimizer/train_config.h"
#include "harness/record/record.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// The result of a search among 1 … most for what fits.
struct Limit {
  int64_t value = 0;    ///< fits, unless it is 0
  int64_t refused = 0;  ///< so many numbers behind it do not; 0 where it is `most`
};

/// By bisection: a number that fits while the next does not. What fits need not be an interval: so
/// at least `least_refused` numbers behind it are tried too, as far as there are any, and where one
/// fits, those behind that; `at_once` of them at a time, in threads of their own, which changes
/// nothing else. What `fits` throws is thrown on.
Limit greatest_that_fits(int64_t most, int64_t least_refused,
                         const std::function<bool(int64_t)>& fits, int at_once = 1);

/// A training step, whatever the length of its sequence (config.model.sequence is not read).
struct StepOf {
  RunConfig config;
  OptimizerOptions optimizer;

  /// Lengths are multiples of it: what the ranks share of a sequence is whole.
  int64_t granularity() const;
  /// Configuration with a sequence of so many tokens.
  RunConfig with(int64_t tokens) const;
};

/// The longest sequence of which a training step fits the memory of each device.
struct LongestSequence {
  int64_t tokens = 0;  ///< [s]
  /// Lengths that were tried are multiples of it: StepOf::granularity(), or where memory is lost to
  /// fragments a multiple of that.
  int64_t granularity = 1;
  /// So many multiples of the granularity that are next longer do not fit: at least
  /// lengths_refused. 0: `tokens` is the most that RunConfig::validate() allows, so it is a lower
  /// bound.
  int64_t refused = 0;
  std::string refused_because = {};  ///< what the first of them is told: which memory is too small
  Memory memory = {};                ///< of the step of this length
  double flops = 0;                  ///< that it executed

  bool at_least() const { return refused == 0; }
};

/// Memory mostly grows with length. It shrinks by what a few dozen tokens take where the length
/// becomes a multiple of the number of mini-sequences, of which the last has the remainder, and by
/// what up to about a hundred take where there is one more of them: far less than so many lengths
/// make up for.
inline constexpr int64_t lengths_refused = 512;

/// Executes some 540 steps on a virtual machine, operation by operation, as many at once as there
/// are processors: exact to the byte and the granularity. 32 layers in 300 mini-sequences each take
/// 3 seconds of a processor's time, in 1000 10 seconds. Throws InputError for a step that is wrong
/// at every length, OutOfMemory where not even the shortest fits.
///
/// Fragments make it a matter of chance which lengths near the limit fit, where an allocator loses
/// memory to them (DeviceRules::caching_allocator). Then lengths of two decimal digits, as they are
/// mostly reported, are tried downward, from what would fit without fragments to the first that
/// fits; all longer ones are refused.
LongestSequence longest_sequence(const StepOf& step, const Machine& machine);

}  // namespace frugal::harness
