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

}  // namespace frugal::kernels
