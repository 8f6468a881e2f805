#pragma once
#include <vector>

#include "harness/measure/artifact.h"
#include "harness/report/table.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// The cases that an artifact has on one GPU (Selection::cuda), each on this virtual machine
/// instead: with the same id, so that what is predicted and what is measured find each other. Where
/// a GPU runs one rank without its peers the machine runs all of them, and charges the links that
/// the lone rank's collectives are charged to.
std::vector<Case> predicted_cases(const Artifact& artifact, const Machine& machine);

/// Every quantity of every record: case, quantity, value, unit. A record without any has its status
/// and reason.
Table prediction_table(const std::vector<Record>& records);

}  // namespace frugal::harness
