#include "harness/place/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/comm/nccl.h"
#include "harness/measure/artifact.h"
#include "harness/measure/peak.h"
#include "harness/place/environment.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/memory_budget.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine_parts.h"

namespace frugal {
namespace {

/// Whether a machine's numbers are what `frugal peak --machine` measured, and no data sheet's.
bool was_measured(const Machine& machine) { return !machine.operations.empty(); }

/// Values only: another source or description of the same number changes no result.
std::string hash_of_values(const Machine& machine) {
  std::string values = machine.name;
  for (const auto& parameter : machine.parameters)
    values += fmt::format(" {}={}", parameter.key, parameter.value);
  for (const auto& tile : machine.tiles) values += fmt::format(" {}x{}", tile.m, tile.n);
  values += fmt::format(" {}", in_words(machine.software));
  if (!machine.operations.empty()) values += " " + to_json(machine.operations).dump();
  return hash_of(values);
}

/// What it is, and how good its numbers are.
std::string in_words(const Machine& machine) {
  return machine.description + (machine.calibration.empty() ? "" : "; " + machine.calibration);
}

/// "NAME" or "NAME#HASH". A file may bear a name that is known, or that another file bears: only
/// the program's own machines go by their name alone.
std::string label_of(const Machine& machine) {
  const std::string hash = hash_of_values(machine);
  const auto names = machine_names();
  const bool own = std::find(names.begin(), names.end(), machine.name) != names.end() &&
                   hash_of_values(find_machine(machine.name)) == hash;
  return own ? machine.name : fmt::format("{}#{}", machine.name, hash.substr(0, 8));
}

/// What the target's own name and --hardware say of its machine; none where neither does.
std::optional<Machine> machine_of(const TargetOptions& options, DeviceKind kind) {
  if (options.machine) return options.machine;
  const size_t colon = options.on.find(':');
  const std::string named = colon == std::string::npos ? "" : options.on.substr(colon + 1);
  if (!options.hardware.empty() && !named.empty())
    throw InputError("a machine is named by --on and by --hardware; leave one of them out");
  if (!named.empty()) return find_machine(named);
  if (!options.hardware.empty()) return find_machine(options.hardware);
  if (kind == DeviceKind::simulated) return find_machine(papers_machine);
  if (kind == DeviceKind::cuda) return machine_of_device(gpus().front().name);
  return std::nullopt;
}

/// Only the processor's ranks are threads that could be pinned, and a lone one has no others to
/// share it with.
void check_pinning(const TargetOptions& options, DeviceKind kind) {
  if (options.pinning == Pinning::none) return;
  if (kind != DeviceKind::cpu)
    throw InputError(
        fmt::format("--pin: cores are the cpu's, and --on is {}; leave --pin out, or use --on cpu",
                    options.on));
  if (!options.lone_rank.empty())
    throw InputError(
        "--pin: a rank without its peers shares the processor with none; leave --pin or "
        "--lone-rank out");
}

}  // namespace

DeviceKind device_kind(std::string_view on) {
  if (on == "cpu") return DeviceKind::cpu;
  if (on == "cuda") return DeviceKind::cuda;
  if (on == "virtual" || on.starts_with("virtual:")) return DeviceKind::simulated;
  throw InputError(
      fmt::format("--on is \"{}\"; it must be cpu, cuda, virtual or virtual:MACHINE", on));
}

std::string describe(const Gpu& gpu) {
  return fmt::format("{}, compute capability {}.{}, {:.1f} GiB, driver for CUDA up to {}, CUDA {}",
                     gpu.name, gpu.major, gpu.minor,
                     static_cast<double>(gpu.memory) / static_cast<double>(int64_t{1} << 30),
                     cuda_version(gpu.driver), cuda_version(gpu.runtime));
}

GpuSelection gpu_selection(const std::vector<Gpu>& gpus) {
  const auto machine = machine_of_device(gpus.front().name);
  const int usable = why_no_nccl().empty() ? static_cast<int>(gpus.size()) : 1;
  return {usable, machine ? machine->name : "", gpus.front().name};
}

std::string GpuSelection::skip(const RunConfig& config) const {
  if (config.ranks() <= count || !machine.empty()) return "";
  return fmt::format(
      "no file of hardware/ names this GPU; there are no links to which the collectives of one "
      "rank of {} could be charged. Describe {} in a file (HACKING.md, A machine), or use {} GPUs",
      config.ranks(), gpu.empty() ? "it" : gpu, config.ranks());
}

Target::Target(const TargetOptions& options)
    : kind_(device_kind(options.on)),
      threads_(options.threads),
      pinning_(options.pinning),
      deadline_(options.deadline) {
  check_pinning(options, kind_);
  if (kind_ == DeviceKind::cuda) gpus();           // says why there is none
  if (kind_ == DeviceKind::cpu) choose_kernels();  // says what is wrong with FRUGAL_SIMD
  machine_ = machine_of(options, kind_);
  on_ = simulated() ? "virtual:" + label_of(*machine_) : options.on;
  if (options.lone_rank.empty()) return;
  if (simulated())
    throw InputError(
        fmt::format("--lone-rank is \"{}\", and --on is {}, whose communication is modelled "
                    "anyway; leave --lone-rank out, or use --on cpu or cuda",
                    options.lone_rank, on_));
  links_ = find_machine(options.lone_rank);
}

std::string Target::machine_hash() const { return machine_ ? hash_of_values(*machine_) : ""; }

std::string Target::device() const {
  if (simulated()) return in_words(*machine_);
  if (kind_ == DeviceKind::cuda) return describe(gpus().front());
  return fmt::format("{}, {} threads", processor_name(), threads_);
}

std::string Target::device(const RunConfig& config) const {
  if (!links_) return device();
  const std::string& known = links_->calibration;
  return fmt::format("{}{}{}; communication modelled on {}{}", device(), one_rank_of,
                     config.ranks(), label_of(*links_), known.empty() ? "" : " (" + known + ")");
}

std::optional<ModelledCommunication> Target::modelled() const {
  if (!links_) return std::nullopt;
  return ModelledCommunication{label_of(*links_), hash_of_values(*links_)};
}

std::unique_ptr<Cluster> Target::cluster(const RunConfig& config) const {
  const bool lone = links_ && config.ranks() > 1;
  const double deadline = deadline_.value_or(LocalGroup::default_deadline);
  if (simulated()) return make_virtual_cluster(config, *machine_, deadline);
  if (kind_ == DeviceKind::cuda)
    return lone ? make_lone_cuda_cluster(config, *links_) : make_cuda_cluster(config, deadline);
  return lone ? make_lone_cpu_cluster(config, threads_, *links_)
              : make_cpu_cluster(config, threads_, deadline, pinning_);
}

std::unique_ptr<Cluster> Target::cluster_without_limit(const RunConfig& config) const {
  if (!simulated()) throw std::logic_error(on_ + " has no memory without a limit");
  return cluster_with(config, std::numeric_limits<int64_t>::max());
}

std::unique_ptr<Cluster> Target::cluster_with(const RunConfig& config, int64_t memory) const {
  const double deadline = deadline_.value_or(LocalGroup::default_deadline);
  if (simulated()) return make_virtual_cluster(config, counterpart(memory), deadline);
  if (kind_ == DeviceKind::cuda) return cluster(config);
  return make_cpu_cluster(config, threads_, deadline, pinning_, memory);
}

int64_t Target::memory_of_rank(const RunConfig& config) const {
  if (simulated()) return machine_->memory_capacity;
  if (kind_ == DeviceKind::cuda) {
    constexpr int64_t left = 256;  // of how many parts one is left to it
    const int64_t free = free_gpu_memory();
    return free - free / left;
  }
  return machine_memory()->capacity() / config.ranks();
}

Machine Target::counterpart(int64_t memory) const {
  Machine machine = machine_ ? *machine_ : find_machine(papers_machine);
  machine.memory_capacity = memory;
  // No file describes a real device's host; and what has no limit has none there either.
  constexpr int64_t endless = std::numeric_limits<int64_t>::max();
  if (!simulated() || memory == endless) machine.host_memory = endless;
  return machine;
}

void check_threads(const std::optional<int>& threads, std::string_view on, bool cpu) {
  if (!threads || cpu) return;
  throw InputError(fmt::format(
      "--threads is {} and --on is {}: kernel threads are the cpu's alone; leave --threads out, or "
      "use --on cpu",
      *threads, on));
}

std::string Target::why_not(const RunConfig& config) const {
  if (kind_ != DeviceKind::cuda) return "";
  return why_not_on_gpus(config, links_ ? 1 : config.ranks(), static_cast<int>(gpus().size()));
}

void Target::check(const RunConfig& config) const {
  if (const std::string why = why_not(config); !why.empty()) throw InputError(why);
  if (pinning_ == Pinning::cores) divide_cores(config.ranks(), threads_each(config, threads_));
}

namespace {

constexpr const char* float32_products = "float32_products";
constexpr const char* instructions = "simd";
constexpr const char* synchronous = "cuda_synchronous";

}  // namespace

std::map<std::string, std::string> Target::options(DType type) const {
  std::map<std::string, std::string> options;
  if (pinning_ == Pinning::cores) options["pinned"] = "yes";
  if (deadline_) options["deadline"] = fmt::format("{}", *deadline_);
  if (tf32(type)) options[float32_products] = "tf32";
  if (kind_ == DeviceKind::cpu && !wanted_instructions().empty())
    options[instructions] = wanted_instructions();
  if (kind_ != DeviceKind::cuda) return options;
  if (cuda_synchronous()) options[synchronous] = "yes";
  options.merge(gpu_libraries());
  return options;
}

std::string command_prefix(const std::map<std::string, std::string>& options) {
  std::string prefix;
  if (options.contains(float32_products)) prefix += "FRUGAL_TF32=1 ";
  if (const auto wanted = options.find(instructions); wanted != options.end())
    prefix += fmt::format("FRUGAL_SIMD={} ", wanted->second);
  if (options.contains(synchronous)) prefix += "FRUGAL_CUDA_SYNCHRONOUS=1 ";
  return prefix;
}

bool Target::tf32(DType type) const {
  return kind_ == DeviceKind::cuda && type == DType::f32 && tf32_products();
}

double Target::devices(const RunConfig& config) const {
  return kind_ == DeviceKind::cpu && !links_ ? 1 : config.ranks();
}

std::optional<double> Target::data_sheet_peak(const RunConfig& config) const {
  if (!machine_ || was_measured(*machine_) || tf32(config.type)) return std::nullopt;
  return machine_->peak_flops(config.type) * devices(config);
}

std::string Target::why_no_data_sheet(const RunConfig& config) const {
  if (tf32(config.type))
    return "products of float32 are computed in tf32 (FRUGAL_TF32=1), whose peak machine files do "
           "not have";
  if (machine_ && was_measured(*machine_))
    return fmt::format("the peaks of the machine {} were measured", machine_->name);
  if (machine_) return "";
  if (kind_ == DeviceKind::cuda)
    return fmt::format(
        "no file of hardware/ has {} among its device_names; name one with "
        "--hardware",
        gpus().front().name);
  return "no data sheet of this processor; name one with --hardware";
}

std::optional<double> Target::measured_peak(const RunConfig& config) {
  if (simulated() && was_measured(*machine_)) return machine_->peak_flops(config.type);
  if (simulated()) return std::nullopt;
  // A GPU is the same for all artifacts of a process; a processor has as many threads as are asked
  // for, and is slower some minutes than others.
  static std::map<DType, double> of_gpu;
  auto& known = kind_ == DeviceKind::cuda ? of_gpu : measured_;
  auto found = known.find(config.type);
  if (found == known.end())
    found = known.emplace(config.type, gemm_peak(config.type, *this).value).first;
  return found->second * devices(config);
}

}  // namespace frugal
