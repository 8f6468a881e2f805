#pragma once
#include <vector>

namespace frugal::kernels {

/// Logical processors that a thread may run on, as the operating system numbers them, ascending.
using Processors = std::vector<int>;

/// Processors that the calling thread may run on.
Processors processors_of_this_thread();

/// Keeps the calling thread on these processors, and the threads that it makes from now on: its
/// OpenMP workers, unless OMP_PROC_BIND places them elsewhere.
void pin_this_thread(const Processors& processors);

/// Divides the cores that the calling thread may use among ranks: one processor of each core, since
/// what runs on the other ones of a core would share its units. Throws InputError if there are too
/// few.
std::vector<Processors> divide_cores(int ranks, int cores_each);

/// Lets OpenMP's threads sleep soon when they wait for each other. To be called first in main():
/// GNU's OpenMP reads its settings when the program is loaded, so the program is started once more
/// with GOMP_SPINCOUNT set. Does nothing where the user has set that or OMP_WAIT_POLICY.
///
/// By default a waiting thread spins for milliseconds. Where another process has a core, it then
/// takes the time of the very thread that it waits for, at the end of every operation: a training
/// step of many small operations becomes ten times slower, and timings of little worth.
void limit_spinning(char** argv);

}  // namespace frugal::kernels
