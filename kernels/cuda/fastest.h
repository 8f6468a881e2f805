#pragma once
#include <cstddef>
#include <functional>
#include <optional>

namespace frugal::kernels::cuda {

/// One execution of a candidate, waited for.
struct Execution {
  float milliseconds = 0;  ///< from its begin on the stream to its end
  float issuing = 0;       ///< that the host took to issue it: its first time, to load it too
};

/// Executes a candidate; none where that fails.
using Execute = std::function<std::optional<Execution>(size_t candidate)>;

/// Index of the fastest candidate, the best guesses being first; none if all fail.
///
/// Each is executed once untimed, because a first execution loads its code, and then all are timed
/// once. Those that are far behind leave, and while there is time the others are timed again by
/// turns, the least time counts. What it takes is bounded, but for loading: first executions are
/// no longer begun after 300 ms of executing, of which the best three are not subject to that. What
/// by its first execution alone takes three times as long as another is not executed again, and so
/// the first round of timing takes no longer. Further rounds have 100 ms together.
std::optional<size_t> fastest(size_t count, const Execute& execute);

}  // namespace frugal::kernels::cuda
