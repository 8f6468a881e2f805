#pragma once

namespace frugal::kernels {

/// Lets OpenMP's threads sleep soon when they wait for each other. To be called first in main():
/// GNU's OpenMP reads its settings when the program is loaded, so the program is started once more
/// with GOMP_SPINCOUNT set. Does nothing where the user has set that or OMP_WAIT_POLICY.
///
/// By default a waiting thread spins for milliseconds. Where another process has a core, it then
/// takes the time of the very thread that it waits for, at the end of every operation: a training
/// step of many small operations becomes ten times slower, and timings of little worth.
void limit_spinning(char** argv);

}  // namespace frugal::kernels
