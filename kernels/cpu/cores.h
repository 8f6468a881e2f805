#pragma once
#include <vector>

namespace frugal::kernels {

/// Logical processors that a thread may run on, as the operating system numbers them, ascending.
using Processors = std::vector<int>;

/// Where the calling thread may run.
Processors processors_of_this_thread();

/// Keeps the calling thread on these processors, and the threads that it makes from now on: its
/// OpenMP workers, unless OMP_PROC_BIND places them elsewhere.
void pin_this_thread(const Processors& processors);

/// So many cores for each of `ranks` ranks, of those that the calling thread may use: one processor
/// of each core, because what runs on the other ones of a core would share its units. Throws
/// InputError where there are too few.
std::vector<Processors> divide_cores(int ranks, int cores_each);

}  // namespace frugal::kernels
