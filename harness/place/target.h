#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cluster.h"
#include "harness/place/device_kind.h"
#include "harness/record/record.h"
#include "kernels/cuda/gpus.h"
#include "kernels/virtual/machine.h"

namespace frugal {

/// The machine of korthikanti2022, in hardware/.
inline constexpr const char* papers_machine = "a100-selene";

/// What a user says of where a run takes place.
struct TargetOptions {
  std::string on = "cpu";  ///< "cpu", "cuda", "virtual" (the papers' machine), "virtual:MACHINE"
  int threads = 1;         ///< kernel threads of the cpu; means nothing elsewhere
  /// A machine or a file: on a virtual target the machine itself, on a real one its data sheet.
  std::string hardware = {};
  /// A machine or a file, to whose links collectives are charged where one rank runs without its
  /// peers (make_lone_*_cluster() of engine/cluster.h); empty: all ranks are there.
  std::string lone_rank = {};
  Pinning pinning = Pinning::none;      ///< of the cpu's ranks; none elsewhere
  std::optional<double> deadline = {};  ///< LocalGroup::default_deadline otherwise
  /// Of a virtual target: the machine itself, whatever a file of its name says.
  std::optional<Machine> machine = {};
};

/// Where a run takes place: a processor, GPUs, or a machine that is described.
class Target {
 public:
  /// Throws InputError for what is no place, where there is no GPU, where ranks are to be pinned
  /// that are no threads of the processor, and where FRUGAL_SIMD asks it for what it does not
  /// have.
  explicit Target(const TargetOptions& options);
  Target(const std::string& on, int threads, const std::string& hardware = "")
      : Target(TargetOptions{on, threads, hardware}) {}

  /// "cpu", "cuda", or "virtual:NAME" of a machine that this program has (hardware/NAME.json). A
  /// machine with other values than those, or another name, is "virtual:NAME#HASH": HASH is the
  /// first 8 digits of its hash.
  const std::string& on() const { return on_; }
  DeviceKind kind() const { return kind_; }
  bool simulated() const { return kind_ == DeviceKind::simulated; }
  Source source() const { return source_of(kind_); }
  int threads() const { return threads_; }
  /// The processor, GPU or machine in words; of a machine with what is calibrated.
  std::string device() const;
  /// The same with what is not there: "…; one rank of 8; communication modelled on h200-hgx
  /// (not calibrated: …)".
  std::string device(const RunConfig& config) const;
  /// The virtual machine, or the data sheet of a real one: --hardware's, else that of the GPU's
  /// name; none where there is neither.
  const std::optional<Machine>& machine() const { return machine_; }
  /// hash_of() the values of the machine or data sheet; empty where there is neither.
  std::string machine_hash() const;
  /// The machine that collectives are charged to; none where they really take place, and on a
  /// virtual machine, which is itself charged.
  std::optional<ModelledCommunication> modelled() const;
  /// Whether products of this type are computed in tf32, which is not float32.
  bool tf32(DType type) const;
  /// Ranks for this configuration. One that is not parallel has no peers that could be absent: it
  /// runs as it always does. Throws InputError, OutOfMemory.
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const;
  /// The same on a virtual machine that has as much memory as is asked for: what a configuration
  /// takes that does not fit. Throws std::logic_error where memory is real.
  std::unique_ptr<Cluster> cluster_without_limit(const RunConfig& config) const;
  /// The same where each rank may take so many bytes. A GPU has what it has.
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const;
  /// Bytes that a rank of this run can take here: the machine's, what is free of a GPU but for a
  /// 256th, which its allocator rounds up and operations take for themselves, or a part of what the
  /// processor can give now.
  int64_t memory_of_rank(const RunConfig& config) const;
  /// A virtual machine whose devices have so many bytes and otherwise are what is known of the
  /// ones here: what fits there, fits here.
  Machine counterpart(int64_t memory) const;

  /// Why a configuration that is right cannot run here: too few GPUs, or a library that this build
  /// does not have. Empty where it can.
  std::string why_not(const RunConfig& config) const;
  /// Throws it as InputError, and where there are too few cores to pin its ranks to: before
  /// anything is written.
  void check(const RunConfig& config) const;

  /// What else than the configuration decides results here, for a record's `options`: pinning, a
  /// deadline of the user's, variables of the environment, and on GPUs the versions of the
  /// libraries.
  std::map<std::string, std::string> options(DType type) const;

  /// FLOP/s of all devices of a run together, from the data sheet; none where there is no sheet.
  /// The threads that are ranks share one processor; every other rank has a device of its own, and
  /// so has one that is absent.
  std::optional<double> data_sheet_peak(const RunConfig& config) const;
  /// Why it is not known.
  std::string why_no_data_sheet(const RunConfig& config) const;
  /// The same as large matrix products reach it here (harness/measure/peak.h), measured once per
  /// type, on a GPU once in a process; on a virtual machine none, but for one whose file has what
  /// was measured.
  std::optional<double> measured_peak(const RunConfig& config);

 private:
  /// That a run of this configuration counts.
  double devices(const RunConfig& config) const;

  DeviceKind kind_;
  std::string on_;
  int threads_;
  Pinning pinning_;
  std::optional<double> deadline_;
  std::optional<Machine> machine_, links_;
  std::map<DType, double> measured_;
};

struct GpuSelection;
/// The GPUs for cases: one where the build has no NCCL, which several need. Of a GPU that no file
/// of hardware/ names there are no lone ranks (GpuSelection::skip).
GpuSelection gpu_selection(const std::vector<Gpu>& gpus);

/// Throws InputError where --threads is given and nothing that --on names is the cpu.
void check_threads(const std::optional<int>& threads, std::string_view on, bool cpu);

/// The variables of the environment that Target::options() took into account, to stand before a
/// command: "FRUGAL_TF32=1 ".
std::string command_prefix(const std::map<std::string, std::string>& options);

/// "NVIDIA H200, compute capability 9.0, 139.7 GiB, driver for CUDA up to 13.0, CUDA 13.0"
std::string describe(const Gpu& gpu);

}  // namespace frugal
