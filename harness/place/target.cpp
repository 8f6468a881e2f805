#include "harness/place/target.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "engine/options/fields.h"
#include "engine/program/behaviour.h"
#include "harness/place/cpu_target.h"
#include "harness/place/cuda_target.h"
#include "harness/place/lone_rank.h"
#include "harness/place/machine_label.h"
#include "harness/place/process_target.h"
#include "harness/place/virtual_target.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// A virtual rank runs nowhere, and a lone one has no others to share the processor with.
void check_pinning(const TargetOptions& options, DeviceKind kind) {
  if (options.pinning == Pinning::none) return;
  if (kind == DeviceKind::simulated)
    throw InputError(
        fmt::format("--pin: cores are this machine's, and --on is {}; leave --pin out, or use --on "
                    "cpu or cuda",
                    options.on));
  if (!options.lone_rank.empty())
    throw InputError(
        "--pin: a rank without its peers shares the processor with none; leave --pin or "
        "--lone-rank out");
}

void check_transport(const TargetOptions& options, DeviceKind kind) {
  if (!options.transport || (kind == DeviceKind::cuda && Processes::here() != nullptr)) return;
  throw InputError(fmt::format(
      "--transport is {}: what carries tensors can be chosen between GPUs of several processes "
      "alone; leave it out{}",
      name_of(*options.transport),
      kind == DeviceKind::cuda ? ", or start as many processes as there are ranks" : ""));
}

/// Throws InputError where ranks cannot be what is asked for.
void check_ranks(const TargetOptions& options, DeviceKind kind) {
  const Processes* const processes = Processes::here();
  if (options.ranks == RanksAs::processes && processes == nullptr) {
    if (const std::string why = why_no_mpi(); !why.empty())
      throw InputError("--ranks is processes: " + why);
    throw InputError(
        "--ranks is processes, and this one was started alone; start as many as there are ranks: "
        "mpirun -n 8 frugal measure ...");
  }
  if (processes == nullptr) return;
  if (options.ranks == RanksAs::threads || kind == DeviceKind::simulated ||
      !options.lone_rank.empty())
    throw InputError(
        fmt::format("{} processes were started, and {} is one; start it without a launcher{}",
                    processes->size(),
                    options.ranks == RanksAs::threads ? "a run whose --ranks are threads"
                    : kind == DeviceKind::simulated   ? "a virtual run"
                                                      : "a rank without its peers",
                    kind == DeviceKind::simulated ? ", or give --on cpu" : ""));
}

template <class Place>
std::unique_ptr<Target> make_real(const TargetOptions& options) {
  if (options.lone_rank.empty()) return std::make_unique<Place>(options);
  return std::make_unique<LoneRank<Place>>(options);
}

/// One rank of a virtual machine: as a real one would run, on the same links.
std::unique_ptr<Target> make_lone_virtual(const TargetOptions& options) {
  auto lone = std::make_unique<LoneRank<VirtualTarget>>(options);
  if (hash_of_values(*lone->links()) == lone->machine_hash()) return lone;
  throw InputError(
      fmt::format("--lone-rank is \"{}\", and --on is {}, whose links are its own; give "
                  "--lone-rank {}, or use --on cpu or cuda",
                  options.lone_rank, lone->on(), lone->machine()->name));
}

}  // namespace

DeviceKind device_kind(std::string_view on) {
  if (on == "cpu") return DeviceKind::cpu;
  if (on == "cuda") return DeviceKind::cuda;
  if (on == "virtual" || on.starts_with("virtual:")) return DeviceKind::simulated;
  throw InputError(
      fmt::format("--on is \"{}\"; it must be cpu, cuda, virtual or virtual:MACHINE", on));
}

std::string machine_named(const TargetOptions& options) {
  const size_t colon = options.on.find(':');
  const std::string named = colon == std::string::npos ? "" : options.on.substr(colon + 1);
  if (!options.hardware.empty() && !named.empty() && options.hardware != named)
    throw InputError(
        fmt::format("--on is {} and --hardware is {}: two machines; leave one of them out",
                    options.on, options.hardware));
  return named.empty() ? options.hardware : named;
}

void TargetOptions::describe(Fields<TargetOptions>& f) {
  using T = TargetOptions;
  f.section(Section::place);
  f.text("on", &T::on, {.placeholder = "cpu|cuda|virtual|virtual:MACHINE"}, "Where")
      .named_file(NamesFile::behind_colon);
  f.text("hardware", &T::hardware, {.placeholder = "NAME|FILE"},
         "The virtual machine, or a file with the data sheet of this processor or GPU")
      .named_file(NamesFile::perhaps);
  f.text("lone_rank", &T::lone_rank, {.placeholder = "NAME|FILE"},
         "Run one rank of those that share layers or sequences, and let collectives take the time "
         "that they would take on the links of this machine, or on virtual:MACHINE on its own. Of "
         "a pipeline, one rank of each distinct stage, one after the other, whose times the "
         "schedule puts together")
      .in(Section::lone_rank)
      .named_file(NamesFile::perhaps);
  f.number("threads", &T::threads, {1, 4096}, "Kernel threads of the cpu; all processors otherwise")
      .usually_follows();
  f.own(
      "pin", &T::pinning, allowed::OnOff{},
      [](Pinning pinning) { return pinning == Pinning::cores; },
      [](const FieldValue& on) { return std::get<bool>(on) ? Pinning::cores : Pinning::none; },
      "Keep each rank on cores of its own, on cpu, or next to its GPU, on cuda");
  f.choice("ranks", &T::ranks,
           "What ranks are, on cpu or cuda; processes where a launcher has started several "
           "(docs/cluster.md), threads otherwise, but on several GPUs only if they are named")
      .usually_follows();
  f.choice("transport", &T::transport,
           "What carries tensors between GPUs of several processes; nccl where the build has it, "
           "the host's memory otherwise")
      .usually_follows();
  f.real("deadline", &T::deadline, {0.001, 1e9},
         "Seconds that a rank waits for another before the run ends; 600 otherwise");
}

std::unique_ptr<Target> make_target(const TargetOptions& options) {
  const DeviceKind kind = device_kind(options.on);
  check_pinning(options, kind);
  check_ranks(options, kind);
  check_transport(options, kind);
  if (kind == DeviceKind::cuda &&
      (Processes::here() != nullptr || options.ranks == RanksAs::threads))
    load_kernels_at_first();
  if (Processes* const processes = Processes::here()) {
    if (kind == DeviceKind::cpu) return std::make_unique<ProcessTarget>(options, *processes);
    return std::make_unique<GpuProcessTarget>(options, *processes);
  }
  if (kind == DeviceKind::cpu) return make_real<CpuTarget>(options);
  if (kind == DeviceKind::cuda) return make_real<CudaTarget>(options);
  if (options.lone_rank.empty()) return std::make_unique<VirtualTarget>(options);
  return make_lone_virtual(options);
}

std::string Target::machine_hash() const { return machine_ ? hash_of_values(*machine_) : ""; }

std::optional<ModelledCommunication> Target::modelled() const {
  if (links() == nullptr) return std::nullopt;
  return ModelledCommunication{label_of(*links()), hash_of_values(*links())};
}

std::unique_ptr<Cluster> Target::cluster_of_stage(const RunConfig& /*config*/,
                                                  int /*stage*/) const {
  throw std::logic_error(on() + " has no links that absent stages would be charged to");
}

Machine Target::counterpart(int64_t memory) const {
  Machine machine = machine_ ? *machine_ : find_machine(papers_machine);
  machine.memory_capacity = memory;
  // No file describes a real device's host.
  machine.host_memory = std::numeric_limits<int64_t>::max();
  return machine;
}

void Target::check(const RunConfig& config) const {
  if (const std::string why = why_not(config); !why.empty()) throw InputError(why);
  if (!simulated()) check_behaviours_on_real(config.program, on());
}

std::map<std::string, std::string> Target::options(DType /*type*/) const {
  std::map<std::string, std::string> options;
  if (deadline_) options["deadline"] = fmt::format("{}", *deadline_);
  return options;
}

void check_threads(const std::optional<int>& threads, std::string_view on, bool cpu) {
  if (!threads || cpu) return;
  throw InputError(fmt::format(
      "--threads is {} and --on is {}: kernel threads are the cpu's alone; leave --threads out, or "
      "use --on cpu",
      *threads, on));
}

std::string command_prefix(const std::map<std::string, std::string>& options) {
  std::string prefix;
  if (options.contains(float32_products)) prefix += "FRUGAL_TF32=1 ";
  if (const auto wanted = options.find(instructions); wanted != options.end())
    prefix += fmt::format("FRUGAL_SIMD={} ", wanted->second);
  if (const auto load = options.find(collective_load);
      load != options.end() && load->second == collective_load_all)
    prefix += "FRUGAL_COLLECTIVE_LOAD=all ";
  if (options.contains(synchronous)) prefix += "FRUGAL_CUDA_SYNCHRONOUS=1 ";
  if (options.contains(shared_gpus)) prefix += "NCCL_MULTI_RANK_GPU_ENABLE=1 ";
  return prefix;
}

}  // namespace frugal::harness
