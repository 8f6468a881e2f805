#include <stdexcept>

#include "engine/comm/tasks.h"

namespace frugal::engine::tasks {

bool available() { return false; }

void run(size_t /*count*/, const std::function<void(size_t)>& /*body*/) {
  throw std::logic_error("this build has no tasks");
}

bool inside() { return false; }

bool wait(Task*& /*waiting*/) { return false; }

void wake(Task*& /*waiting*/) {}

}  // namespace frugal::engine::tasks
