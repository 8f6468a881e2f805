#include "kernels/cuda/fastest.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace frugal::kernels::cuda {
namespace {

constexpr float enough_first = 300, enough_further = 100;  // milliseconds
constexpr size_t certain = 3;                              // are executed however long that takes
constexpr int most_rounds = 5;
/// Times the best: what a first execution is compared by is rougher than what is timed.
constexpr float hopeless_at_first = 3;
float hopeless(int rounds) { return 1 + 1 / static_cast<float>(rounds); }

struct Candidate {
  size_t index;
  float at_least, at_most;  // milliseconds, by its first execution
  float time = HUGE_VALF;   // the least
};

float least(const std::vector<Candidate>& candidates, float Candidate::*time) {
  float least = HUGE_VALF;
  for (const Candidate& c : candidates) least = std::min(least, c.*time);
  return least;
}

/// Executes each candidate once. Loading while a stream is idle counts as time on it, but never
/// more than the host took.
std::vector<Candidate> executed_once(size_t count, const Execute& execute) {
  std::vector<Candidate> candidates;
  float spent = 0;
  for (size_t i = 0; i < count && (candidates.size() < certain || spent < enough_first); ++i) {
    const auto first = execute(i);
    if (!first) continue;
    const float at_least = std::max(0.0F, first->milliseconds - first->issuing);
    candidates.push_back({.index = i, .at_least = at_least, .at_most = first->milliseconds});
    spent += at_least;
  }
  const float limit = hopeless_at_first * least(candidates, &Candidate::at_most);
  std::erase_if(candidates, [&](const Candidate& c) { return c.at_least > limit; });
  return candidates;
}

/// Milliseconds that it took. Who fails now leaves.
float time_each(std::vector<Candidate>& candidates, const Execute& execute) {
  float spent = 0;
  std::erase_if(candidates, [&](Candidate& c) {
    const auto execution = execute(c.index);
    if (!execution) return true;
    c.time = std::min(c.time, execution->milliseconds);
    spent += execution->milliseconds;
    return false;
  });
  return spent;
}

float cost(const std::vector<Candidate>& candidates) {
  float sum = 0;
  for (const Candidate& c : candidates) sum += c.time;
  return sum;
}

}  // namespace

std::optional<size_t> fastest(size_t count, const Execute& execute) {
  std::vector<Candidate> candidates = executed_once(count, execute);
  float spent = 0;
  for (int round = 1; round <= most_rounds && candidates.size() > 1; ++round) {
    if (round > 1 && spent + cost(candidates) > enough_further) break;
    const float took = time_each(candidates, execute);
    if (round > 1) spent += took;
    const float limit = hopeless(round) * least(candidates, &Candidate::time);
    std::erase_if(candidates, [&](const Candidate& c) { return c.time > limit; });
  }
  const auto best =
      std::min_element(candidates.begin(), candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  if (best == candidates.end()) return std::nullopt;
  return best->index;
}

}  // namespace frugal::kernels::cuda
