#include "harness/measure/at_once.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/measure/interrupt.h"
#include "harness/place/environment.h"

namespace frugal::harness {

void at_once(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto go_on = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) {
        stop_if_interrupted();
        work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto most = static_cast<size_t>(usable_processors());
    for (size_t i = 0; i < std::min(count, most); ++i) threads.emplace_back(go_on);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace frugal::harness
