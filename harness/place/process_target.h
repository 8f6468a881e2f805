#pragma once
#include "harness/place/cpu_target.h"
#include "harness/place/cuda_target.h"
#include "harness/place/processes.h"

namespace frugal::harness {

/// What all places have whose ranks are processes: throws InputError where there are not as many as
/// ranks, and where ranks that share layers are on different hosts and need not be.
void check_ranks_of(const Processes& processes, const RunConfig& config);
/// The sum of what all processes have.
double sum_over(Processes& processes, double mine);
/// Throws InputError where MPI has not started them, which `what` needs.
void need_mpi(const Processes& processes, const std::string& what);
/// "; 4 processes on 2 hosts"
std::string in_words(const Processes& processes);

/// A CpuTarget or a CudaTarget where a launcher has started processes, one for each rank.
template <class Real>
class OfProcesses : public Real {
 public:
  OfProcesses(const TargetOptions& options, Processes& processes)
      : Real(options), processes_(processes) {
    processes_.world().set_deadline(this->deadline());
  }

  using Real::device;
  std::string device(const RunConfig& config) const override {
    return Real::device(config) + in_words(processes_);
  }
  /// The sum of the processes', which have measured it at the same time.
  double together(double rate, const RunConfig& /*config*/) const override {
    return sum_over(processes_, rate);
  }
  void check(const RunConfig& config) const override {
    Real::check(config);
    check_ranks_of(processes_, config);
  }
  std::map<std::string, std::string> options(DType type) const override {
    std::map<std::string, std::string> options = Real::options(type);
    options[ranks_option] = name_of(RanksAs::processes);
    if (processes_.hosts() > 1) options["hosts"] = std::to_string(processes_.hosts());
    return options;
  }

 protected:
  Processes& processes() const { return processes_; }

 private:
  Processes& processes_;
};

/// The processors of their hosts.
class ProcessTarget final : public OfProcesses<CpuTarget> {
 public:
  ProcessTarget(const TargetOptions& options, Processes& processes);

  /// One processor for each host.
  double devices(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::unique_ptr<Cluster> cluster_with(const RunConfig& config, int64_t memory) const override;
  int64_t memory_of_rank(const RunConfig& config) const override;
};

/// A GPU for each, or for several where NCCL is told that they may share one.
class GpuProcessTarget final : public OfProcesses<CudaTarget> {
 public:
  GpuProcessTarget(const TargetOptions& options, Processes& processes);

  std::unique_ptr<Cluster> cluster(const RunConfig& config) const override;
  std::map<std::string, std::string> options(DType type) const override;

 private:
  /// What is asked for, or else NCCL where the build has it. Throws InputError where neither can
  /// be.
  static Transport transport_of(const TargetOptions& options, const Processes& processes);
  int first_gpu() const override;
  int ranks_here(const RunConfig& /*config*/) const override { return 1; }
  int all_gpus() const override { return processes().distinct_gpus(); }
  int ranks_on_a_gpu(const RunConfig& /*config*/) const override {
    return processes().ranks_on_a_gpu();
  }
  bool connects(const RunConfig& config) const override {
    return config.ranks() > 1 && transport_ == Transport::nccl;
  }

  const Transport transport_;
};

}  // namespace frugal::harness
