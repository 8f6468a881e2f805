#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/namespace.h"

namespace frugal::bench {

/// What `work` says in a process of its own, where nothing that ran before has left memory behind.
/// Throws std::runtime_error with what it threw, or where the process does not end well;
/// std::logic_error unless this process has one thread, because no other lives on in the new one,
/// which would wait for it.
nlohmann::json in_own_process(const std::function<nlohmann::json()>& work);

/// Bytes of this process in memory: now, and the most there ever were (proc(5), VmRSS and VmHWM).
struct Resident {
  int64_t now = 0, peak = 0;
};
Resident resident();

}  // namespace frugal::bench
