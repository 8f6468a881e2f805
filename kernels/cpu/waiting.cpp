#include "kernels/cpu/waiting.h"

#include <unistd.h>

#include <cstdlib>

namespace frugal::kernels {

void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  // About a microsecond: enough for threads that end together.
  if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0) execv("/proc/self/exe", argv);
  // Where there is no /proc it goes on, only slower.
}

}  // namespace frugal::kernels
