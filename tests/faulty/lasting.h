#pragma once
#include "kernels/device.h"

namespace frugal::testing {

/// A device's fault from beginning to end, by the fault's kind (FRUGAL_FAULT="KIND
/// OPERATIONS RANK"), and of which operations: those of a name ("gelu"), "any", or "memory", which
/// are those that multiply nothing and move a MiB or more.
///
/// `element` changes a bit of one element of every result; `slow` has them take 20 % longer, or by
/// the fraction that FRUGAL_FAULT_SLOWER says, `half` twice as long, and `drift` longer by 10 % for
/// each minute that the program has run. Empty where the kind is another. The device has to outlive
/// it.
kernels::Device::OnOperation lasting_fault(kernels::Device& device);

}  // namespace frugal::testing
