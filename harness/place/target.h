#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/cluster/cluster.h"
#include "harness/place/device_kind.h"
#include "harness/record/record.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// The machine of korthikanti2022, in hardware/.
inline constexpr const char* papers_machine = "a100-selene";

/// What ranks are, on the cpu and on GPUs.
enum class RanksAs : uint8_t { threads, processes };
constexpr Names names_of(RanksAs) { return {"threads", "processes"}; }

/// Where the threads of a rank run: wherever the system puts them, or, on the cpu, on as many cores
/// as they are, which no other rank uses, and on cuda on the processors next to the rank's GPU.
enum class Pinning : uint8_t { none, cores };

/// Target::options() of ranks that are processes, and of what carries tensors between their GPUs.
inline constexpr const char* ranks_option = "ranks";
inline constexpr const char* transport_option = "transport";

/// What a user says of where a run takes place.
struct TargetOptions {
  std::string on = "cpu";  ///< "cpu", "cuda", "virtual" (the papers' machine), "virtual:MACHINE"
  int threads = 1;         ///< kernel threads of the cpu; means nothing elsewhere
  /// A machine or a file: on a virtual target the machine itself, on a real one its data sheet.
  std::string hardware = {};
  /// A machine or a file, to whose links collectives are charged where one rank runs without its
  /// peers (make_lone_*_cluster() of engine/cluster/cluster.h); empty: all ranks are there. Of a
  /// virtual machine its own.
  std::string lone_rank = {};
  Pinning pinning = Pinning::none;  ///< of the cpu's and GPUs' ranks; none elsewhere
  /// Processes where a launcher has started several, threads otherwise.
  std::optional<RanksAs> ranks = {};
  /// Of GPUs of processes: NCCL otherwise, where the build has it.
  std::optional<Transport> transport = {};
  std::optional<double> deadline = {};  ///< LocalGroup::default_deadline otherwise
  /// The machine of `on` or `hardware` itself, and that of `lone_rank`, whatever files of their
  /// names say.
  std::optional<Machine> machine = {}, links = {};

  static void describe(Fields<TargetOptions>& fields);
};

/// The machine that `on` or `hardware` names; empty: neither does. Throws InputError where they
/// name different ones.
std::string machine_named(const TargetOptions& options);

/// Where a run takes place. Each place is a class in a file of its own: the processor
/// (cpu_target.h), GPUs (cuda_target.h), a machine that is described (virtual_target.h), one rank
/// of many on one of these (lone_rank.h), and their ranks as processes (process_target.h).
class Target {
 public:
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  /// "cpu", "cuda", or "virtual:" and label_of() its machine.
  const std::string& on() const { return on_; }
  virtual DeviceKind kind() const = 0;
  Source source() const { return source_of(kind()); }
  bool simulated() const { return source() == Source::simulated; }
  /// Kernel threads, where these are the place's to choose.
  virtual std::optional<int> threads() const { return std::nullopt; }
  /// The processor, GPU or machine in words; of a machine with what is calibrated.
  virtual std::string device() const = 0;
  /// Device, and what is not there: "…; one rank of 8; communication modelled on h200-hgx
  /// (not calibrated: …)".
  virtual std::string device(const RunConfig& /*config*/) const { return device(); }
  /// FLOP/s of how many devices() a run's peak is.
  virtual double devices(const RunConfig& config) const { return config.ranks(); }
  /// Of all of them, where one_rank() (harness/peaks/peak.h) has reached this rate.
  virtual double together(double rate, const RunConfig& config) const {
    return rate * devices(config);
  }

  /// The virtual machine, or the data sheet of a real one: --hardware's, else that of the GPU's
  /// name; none where there is neither.
  const std::optional<Machine>& machine() const { return machine_; }
  /// Why there is none; empty where there is one.
  virtual std::string why_no_machine() const { return ""; }
  /// hash_of_values() of the machine or data sheet; empty where there is neither.
  std::string machine_hash() const;
  /// The machine that collectives of a lone rank are charged to; null where all ranks are there.
  virtual const Machine* links() const { return nullptr; }
  std::optional<ModelledCommunication> modelled() const;
  /// Whether losses and gradients mean something: all ranks are there, and compute.
  bool computes() const { return !simulated() && links() == nullptr; }
  /// Whether products of this type are computed in tf32, which is not float32.
  virtual bool tf32(DType /*type*/) const { return false; }

  /// Ranks for this configuration. One that is not parallel has no peers that could be absent: it
  /// runs as it always does. Throws InputError, OutOfMemory.
  virtual std::unique_ptr<Cluster> cluster(const RunConfig& config) const = 0;
  /// Makes a cluster whose ranks may take so many bytes each. A GPU has what it has.
  virtual std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const = 0;
  /// One rank of a stage of a pipeline whose other ranks are absent (make_lone_*_cluster() of
  /// engine/cluster/cluster.h). Throws std::logic_error where links() are none.
  virtual std::unique_ptr<Cluster> cluster_of_stage(const RunConfig& config, int stage) const;
  /// Bytes that a rank of this run can take here: the machine's, what is free of a GPU, or a part
  /// of what the processor can give now.
  virtual int64_t memory_of_rank(const RunConfig& config) const = 0;
  /// A virtual machine whose devices have so many bytes and otherwise are what is known of the
  /// ones here: what fits there, fits here.
  virtual Machine counterpart(int64_t memory) const;

  /// GPUs of this process that run ranks of a configuration, by their index in gpus()
  /// (kernels/cuda/gpus.h); none elsewhere.
  virtual std::vector<int> gpus_here(const RunConfig& /*config*/) const { return {}; }

  /// Why a configuration that is right cannot run here: too few GPUs, or a library that this build
  /// does not have. Empty where it can.
  virtual std::string why_not(const RunConfig& /*config*/) const { return ""; }
  /// Throws it as InputError, and where there are too few cores to pin its ranks to: before
  /// anything is written.
  virtual void check(const RunConfig& config) const;

  /// What else than the configuration decides results here, for a record's `options`: pinning, a
  /// deadline of the user's, variables of the environment, and on GPUs the versions of the
  /// libraries.
  virtual std::map<std::string, std::string> options(DType type) const;

 protected:
  Target(std::string on, std::optional<Machine> machine, std::optional<double> deadline)
      : on_(std::move(on)), machine_(std::move(machine)), deadline_(deadline) {}

  /// Seconds that a rank waits for another.
  double deadline() const { return deadline_.value_or(LocalGroup::default_deadline); }
  /// Number of a run's ranks that are there.
  virtual int ranks_here(const RunConfig& config) const { return config.ranks(); }

 private:
  std::string on_;
  std::optional<Machine> machine_;
  std::optional<double> deadline_;
};

/// Throws InputError for what is no place, where there is no GPU, where ranks are to be pinned that
/// are no threads of the processor, and where FRUGAL_SIMD asks it for what it does not have.
std::unique_ptr<Target> make_target(const TargetOptions& options);

/// Throws InputError where --threads is given and nothing that --on names is the cpu.
void check_threads(const std::optional<int>& threads, std::string_view on, bool cpu);

/// The variables of the environment that Target::options() took into account, to stand before a
/// command: "FRUGAL_TF32=1 ".
std::string command_prefix(const std::map<std::string, std::string>& options);

}  // namespace frugal::harness
