#pragma once
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/types.h"
#include "kernels/virtual/attention_rates.h"
#include "kernels/virtual/measured_operations.h"

namespace frugal::kernels {

/// A described machine: what the cost model (kernels/virtual/cost_model.h) needs to know of it.
/// Read from hardware/NAME.json, where every number stands with its unit and its source; what each
/// one means and how it is used is in docs/cost-model.md. SI units: seconds, bytes, FLOP/s,
/// bytes/s.
struct Machine {
  /// The part of a GEMM's result that one multiprocessor computes at a time.
  struct Tile {
    int64_t m = 0, n = 0;
  };
  /// Other published value of a number, of which the file can have only one.
  struct Other {
    double value = 0;
    std::string source;
  };
  /// Bandwidths over each link of a ring of so many ranks of one node, `apart` devices from each
  /// other, while the node's other devices are in such rings, too.
  struct GroupRates {
    int64_t ranks = 0, apart = 1;
    double all_reduce = 0, all_gather = 0, reduce_scatter = 0;
  };
  /// A number as it stands in the file, for reports.
  struct Parameter {
    std::string key;  ///< "network.link_bandwidth"
    double value = 0;
    std::string unit, source;
    bool whole = false;                                     ///< it counts something, or bytes
    double most = std::numeric_limits<double>::infinity();  ///< 1 of a fraction
    std::vector<Other> others;
  };

  std::string name, description;
  /// Numbers that were fitted or measured, or that none was: "not calibrated: …". May be empty.
  std::string calibration;
  /// Names that a driver gives this machine's GPUs, exactly: "NVIDIA H200". May be empty.
  std::vector<std::string> device_names;

  // One device.
  double flops_bf16 = 0, flops_f32 = 0, flops_f64 = 0;  ///< dense peaks
  double flops_float8 = 0;                              ///< the same of 8-bit operands; 0: none
  int64_t memory_capacity = 0;
  int64_t communicator_memory = 0;  ///< of it, what a program's communicator has for its buffers
  Libraries libraries;
  double memory_bandwidth = 0;  ///< peak
  double memory_fraction = 0;   ///< of the peak that operations reach, in (0, 1]
  double memory_latency = 0;    ///< of one access
  double l2_bandwidth = 0;      ///< all multiprocessors together
  int64_t multiprocessors = 0;
  double host_bandwidth = 0;    ///< to the host's memory or from it; peak of one direction
  double host_fraction = 0;     ///< of it that transfers reach
  double launch_overhead = 0;   ///< host time to issue one operation
  double eager_overhead = 0;    ///< the same of eager PyTorch
  double engine_overhead = 0;   ///< the same of TransformerEngine's modules
  double kernel_latency = 0;    ///< device time between two operations that follow each other
  double gemm_fraction = 0;     ///< of a multiprocessor's peak that a tile's inner loop reaches
  double gemm_sustained = 0;    ///< of it that the loop sustains, one product after another
  double gemm_float8 = 0;       ///< of the peak of 8-bit operands, with scales of a tensor each
  double gemm_2023 = 0;         ///< the same with cuBLAS of 2023; 0: as gemm_sustained
  double gemm_accumulated = 0;  ///< the same of products added in float32; 0: as gemm_sustained
  /// Fractions of the memory's peak of PyTorch's and TransformerEngine's gradients of norms; 0: as
  /// others.
  double pytorch_norm_fraction = 0, engine_norm_fraction = 0;
  double attention_fraction = 0;  ///< of the memory's peak that softmax and its dropout reach
  double batch_overhead = 0;      ///< before a forward pass whose stage fetches the batch
  std::vector<Tile> tiles;

  // Devices together. A machine of one device has no links, and zeros from link_bandwidth on.
  int64_t devices_per_node = 0;
  int64_t host_memory = 0;       ///< of a node, shared by its devices
  double link_bandwidth = 0;     ///< a device's, one direction, within a node; peak
  double link_fraction = 0;      ///< of it that collectives reach
  double gather_fraction = 0;    ///< of it that all-gather and reduce-scatter reach
  double network_bandwidth = 0;  ///< a device's when all send, one direction, between nodes; peak
  int64_t devices_per_port = 1;  ///< devices that share a network port, of network_bandwidth each
  double network_fraction = 0;   ///< of it that collectives reach
  double lone_fraction = 0;      ///< those of groups with one rank to a node; 0: the same
  double message_fraction = 0;   ///< and messages; 0: the same
  double exchange_fraction = 0;  ///< and those of both directions at once, each; 0: as messages
  double collective_share = 0;   ///< of a device, taken from what is computed beside a collective
  int64_t collective_multiprocessors = 0;  ///< of it, which products lack; 0: they lose the share
  double compute_share = 0;       ///< of a collective's speed, taken by what is computed beside it
  double collective_latency = 0;  ///< of any collective
  double link_latency = 0;        ///< of each step within a node
  double network_latency = 0;     ///< of each step between nodes

  /// Groups within a node whose collectives have bandwidths of their own.
  std::vector<GroupRates> groups;

  /// Operations whose times were measured, which stand in place of what follows from the numbers
  /// above.
  MeasuredOperations operations;
  /// Kernels of fused attention whose rates were published; others cost what their products cost.
  std::vector<AttentionRates> attention;

  std::vector<Parameter> parameters;
  /// Clock of the multiprocessors at which flops_* are reached, in Hz. It decides no virtual time:
  /// what a GPU computes in is held against its peak at the clock that it had.
  std::optional<Parameter> peak_clock;

  /// Dense matrix peak for operands of this type.
  double peak_flops(DType type) const {
    return type == DType::bf16 ? flops_bf16 : type == DType::f64 ? flops_f64 : flops_f32;
  }
};

/// Throws InputError where the machine cannot be that of a run: on several devices, where it has no
/// links, or of a type in which its operations were not measured.
void require_able(const Machine& machine, int64_t devices, DType type);

/// Throws InputError that names `file`, the key and what is allowed.
Machine parse_machine(std::string_view text, const std::string& file);

/// The machine of this name (hardware/NAME.json, inside the program) or, where it contains a slash
/// or ends in .json, of this file; some numbers get other values, by Machine::Parameter::key.
/// Throws InputError for an unknown name, with the nearest ones, for a key that the file does not
/// have and for a value that it may not have.
Machine find_machine(const std::string& name_or_path,
                     const std::map<std::string, double>& values = {});

/// A machine's file: its text, what it takes of its base in it, and what messages call it.
struct MachineFile {
  std::string text, name;
};
/// File that find_machine() finds, for what else it says ("fit": harness/calibrate/fit.h).
MachineFile find_machine_file(const std::string& name_or_path);

/// Names that find_machine() knows.
std::vector<std::string> machine_names();

/// The machine of hardware/ whose GPUs the driver calls so (Machine::device_names); none where no
/// file has that name.
std::optional<Machine> machine_of_device(std::string_view device_name);

}  // namespace frugal::kernels
