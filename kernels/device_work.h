#pragma once
#include <array>
#include <utility>

#include "kernels/operations.h"

namespace frugal::kernels {

/// Calls of a host for a device.
struct HostCalls {
  /// Launches of kernels, ours and those of cuBLASLt and cuDNN, which may run several for one call.
  /// NCCL's are not among them.
  double launches = 0;
  double library_calls = 0;  ///< those of them that are a library's
  double copies = 0;  ///< between the host's memory and the device's, that the host waits for
  double synchronisations = 0;  ///< the host has waited for the device, for copies too
  double issue_seconds = 0;     ///< in which a described host makes them

  void add(const HostCalls& more, double times) {
    launches += times * more.launches;
    library_calls += times * more.library_calls;
    copies += times * more.copies;
    synchronisations += times * more.synchronisations;
    issue_seconds += times * more.issue_seconds;
  }
};

/// Work that a device was given since some moment. Numbers are whole, unless they are a mean.
struct DeviceWork {
  /// Operations of one name.
  struct Operations {
    double count = 0;
    Cost cost;  ///< the sum of theirs
  };
  static constexpr size_t kinds = std::variant_size_v<Operation>;

  std::array<Operations, kinds> operations{};  ///< in the order of Operation
  HostCalls calls;

  void add(const Operation& operation) {
    Operations& all = operations.at(operation.index());
    const Cost cost = cost_of(operation);
    ++all.count;
    all.cost.flops += cost.flops;
    all.cost.bytes += cost.bytes;
  }
  /// Adds `times` as much; −1 takes it away.
  void add(const DeviceWork& more, double times = 1) {
    for (size_t i = 0; i < kinds; ++i) {
      operations[i].count += times * more.operations[i].count;
      operations[i].cost.flops += times * more.operations[i].cost.flops;
      operations[i].cost.bytes += times * more.operations[i].cost.bytes;
    }
    calls.add(more.calls, times);
  }
  Operations total() const {
    Operations sum;
    for (const Operations& each : operations) {
      sum.count += each.count;
      sum.cost.flops += each.cost.flops;
      sum.cost.bytes += each.cost.bytes;
    }
    return sum;
  }

  /// Name of each entry of `operations`: "gemm".
  static constexpr std::array<std::string_view, kinds> names =
      []<size_t... i>(std::index_sequence<i...>) {
    return std::array{std::variant_alternative_t<i, Operation>::name...};
  }
  (std::make_index_sequence<kinds>());
};

}  // namespace frugal::kernels
