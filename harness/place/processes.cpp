#include "harness/place/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/comm/nccl/nccl.h"
#include "harness/measure/interrupt.h"
#include "harness/place/torchrun.h"
#include "harness/record/exit.h"
#include "kernels/cpu/cores.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

Processes* of_this_program = nullptr;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What a launcher tells each process that it starts.
struct ToldByLauncher {
  int processes = 1, rank = 0;
};

/// By Open MPI's mpirun, srun or another MPI's mpirun. Without a launcher: one process, rank 0.
ToldByLauncher told_by_launcher() {
  constexpr std::array<std::array<const char*, 2>, 3> variables = {
      {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
       {"PMI_SIZE", "PMI_RANK"}}};
  for (const auto& [size, rank] : variables)
    if (const std::string text = variable(size); !text.empty())
      return {std::atoi(text.c_str()), std::atoi(variable(rank).c_str())};
  return {};
}

/// Whether they have what connects them: PMIx, of mpirun or of srun --mpi=pmix.
bool are_connected() { return !variable("PMIX_RANK").empty(); }

/// Variables of the environment that a number may depend on. Values with a path are left out, and
/// so are those that say where processes listen.
std::map<std::string, std::string> environment_variables() {
  constexpr std::array<std::string_view, 9> prefixes = {
      "NCCL_",          "UCX_",         "OMPI_MCA_btl",   "OMPI_MCA_pml", "OMPI_MCA_coll",
      "OMPI_MCA_hwloc", "OMPI_MCA_mtl", "OMPI_MCA_rmaps", "OMPI_MCA_mpi"};
  std::map<std::string, std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.find('/', equals) != std::string_view::npos)
      continue;
    const bool matters = std::any_of(prefixes.begin(), prefixes.end(),
                                     [&](std::string_view p) { return text.starts_with(p); });
    if (matters) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

/// "0-3,8" of ascending numbers.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string serialized(const RankPlaceHere& place) {
  return json{place.host, place.processors, place.variables}.dump();
}

RankPlaceHere parsed(const std::string& text) {
  const json json = json::parse(text);
  return {json.at(0), json.at(1), json.at(2)};
}

/// Waits, two seconds at most, until the launcher has read what was printed: of a run that is
/// aborted it may print no more.
void wait_until_read(int descriptor) {
  using std::chrono::milliseconds;
  int unread = 0;
  for (int i = 0; i < 200 && ::ioctl(descriptor, FIONREAD, &unread) == 0 && unread > 0; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  std::this_thread::sleep_for(milliseconds(50));  // and passed it on
}

/// Why a process has no GPU, which it may use, and whether it may share them.
std::string seen_gpus() {
  json seen = {why_no_gpu(), json::array(), ranks_may_share_gpus()};
  if (why_no_gpu().empty())
    for (const Gpu& gpu : frugal::kernels::gpus()) seen[1].push_back({gpu.name, gpu.uuid});
  return seen.dump();
}

std::vector<RankGpu> parsed_gpus(const std::string& text, int rank, const std::string& host) {
  const json seen = json::parse(text);
  if (const std::string why = seen.at(0); !why.empty())
    throw InputError(fmt::format("rank {} on {}: {}", rank, host, why));
  std::vector<RankGpu> all;
  for (const json& each : seen.at(1))
    all.push_back({static_cast<int>(all.size()), each.at(0), each.at(1)});
  return all;
}

/// What the others print would be said as often as there are processes.
void print_nothing() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDOUT_FILENO);
}

}  // namespace

Processes* Processes::here() { return of_this_program; }

bool Processes::speaks() {
  if (here() != nullptr) return here()->world_->speaks();
  return are_connected() || told_by_launcher().rank == 0;
}

void Processes::need_one(const std::string& what) {
  if (here() == nullptr) return;
  throw InputError(fmt::format(
      "{} runs its ranks as threads of one process, and {} processes were started; start it "
      "without a launcher",
      what, here()->size()));
}

double Processes::of_first(double number) {
  if (here() == nullptr) return number;
  const std::string first =
      here()->of_first({reinterpret_cast<const char*>(&number), sizeof number});
  std::memcpy(&number, first.data(), sizeof number);
  return number;
}

std::unique_ptr<Processes> Processes::if_launched() {
  if (const auto told = Torchrun::found()) return std::unique_ptr<Processes>(new Processes(*told));
  const int processes = told_by_launcher().processes;
  if (processes < 2) return nullptr;
  if (!are_connected())
    throw InputError(fmt::format(
        "{} processes were started that do not know each other; start them with srun --mpi=pmix "
        "or with Open MPI's mpirun, or one alone",
        processes));
  return std::unique_ptr<Processes>(new Processes());
}

Processes::Processes() : session_(std::make_unique<MpiSession>()) {
  try {
    join(session_->rank(), session_->size(),
         [this](const std::string& address) { return session_->tell(address); }, {});
  } catch (...) {
    session_->give_up();  // at its end MPI would wait for all, and one is missing
    throw;
  }
  groups_ = mpi_groups(*world_);
}

Processes::Processes(const Torchrun& told) {
  std::string first = fmt::format("{} {} {} {}", told.port, told.name, told.host, told.host);
  join(told.rank, told.size, [&](const std::string& /*own*/) { return first; },
       {.port = told.port, .secret = told.name});
}

void Processes::join(int rank, int size, const World::Tell& tell, World::Options options) {
  catch_interrupts();
  if (rank > 0) print_nothing();
  options.stop = stop_while_waiting;
  options.overdue = [this](const Failure& failure) {
    if (world_->speaks()) fmt::print(stderr, "frugal: {}\n", failure.reason);
    std::_Exit(static_cast<int>(exit_of(failure.kind)));
  };
  world_ = std::make_unique<World>(rank, size, tell, std::move(options));
  const RankPlaceHere own{.host = host_name(),
                          .processors = processors_of_this_thread(),
                          .variables = environment_variables()};
  for (const std::string& text : world_->exchange(serialized(own))) places_.push_back(parsed(text));
  of_this_program = this;
}

Processes::~Processes() { of_this_program = nullptr; }

bool Processes::started_by_srun() { return variable("PMIX_NAMESPACE").starts_with("slurm."); }

int Processes::hosts() const {
  std::set<std::string> names;
  for (const RankPlaceHere& place : places_) names.insert(place.host);
  return static_cast<int>(names.size());
}

int Processes::on_this_host() const {
  const std::string& host = places_[static_cast<size_t>(rank())].host;
  return static_cast<int>(
      std::count_if(places_.begin(), places_.end(),
                    [&](const RankPlaceHere& place) { return place.host == host; }));
}

int Processes::processors_here() const {
  std::set<int> all;
  for (const RankPlaceHere& place : places_)
    if (place.host == places_[static_cast<size_t>(rank())].host)
      all.insert(place.processors.begin(), place.processors.end());
  return static_cast<int>(all.size());
}

const std::vector<RankGpu>& Processes::gpus() {
  if (!gpus_.empty()) return gpus_;
  std::vector<std::vector<RankGpu>> usable;
  bool shared = true;
  for (const std::string& text : world_->exchange(seen_gpus())) {
    const size_t rank = usable.size();
    usable.push_back(parsed_gpus(text, static_cast<int>(rank), places_[rank].host));
    shared = shared && json::parse(text).at(2).get<bool>();
  }
  return gpus_ = gpu_of_each(host_of_each(), usable, shared);
}

std::vector<std::string> Processes::host_of_each() const {
  std::vector<std::string> hosts;
  for (const RankPlaceHere& place : places_) hosts.push_back(place.host);
  return hosts;
}

int Processes::distinct_gpus() const {
  return static_cast<int>(ranks_of_gpus(host_of_each(), gpus_).size());
}

int Processes::ranks_on_a_gpu() const {
  int most = 0;
  for (const auto& [gpu, ranks] : ranks_of_gpus(host_of_each(), gpus_))
    most = std::max(most, ranks);
  return most;
}

void Processes::agree(const json& mine) {
  const std::vector<std::string> all = world_->exchange(mine.dump());
  const json first = json::parse(all.front());
  for (size_t r = 1; r < all.size(); ++r) {
    const json other = json::parse(all[r]);
    if (other == first) continue;
    std::set<std::string> keys;
    for (const json* each : {&first, &other})
      for (const auto& [key, value] : each->items()) keys.insert(key);
    for (const std::string& key : keys) {
      const json a = first.value(key, json()), b = other.value(key, json());
      if (a == b) continue;
      const auto text = [](const json& value) {
        return value.is_null() ? std::string("nothing of it") : value.dump();
      };
      throw InputError(fmt::format(
          "rank {} on {} was started with {} {}, and rank 0 on {} with {}; start all of them with "
          "the same program and flags",
          r, places_[r].host, key, text(b), places_[0].host, text(a)));
    }
  }
}

std::string Processes::launcher() const {
  if (by_mpi()) return fmt::format("mpirun -n {} ", size());
  const std::string nodes = hosts() > 1 ? fmt::format("--nnodes {} ", hosts()) : "";
  return fmt::format("torchrun {}--nproc-per-node {} --no-python ", nodes, on_this_host());
}

json Processes::environment() const {
  json ranks = json::array();
  for (const RankPlaceHere& place : places_)
    ranks.push_back({{"host", place.host},
                     {"processors", ranges(place.processors)},
                     {"variables", place.variables}});
  for (size_t r = 0; r < gpus_.size(); ++r)
    ranks[r]["gpu"] = {{"index", gpus_[r].index}, {"name", gpus_[r].name}, {"uuid", gpus_[r].uuid}};
  json all = {{"ranks", ranks}};
  if (by_mpi()) all["mpi"] = mpi_version();
  return all;
}

int Processes::end(int status) {
  if (!world_->failure()) {
    world_->leave();
    return status;
  }
  if (by_mpi())
    session_->give_up();
  else
    world_->leave();  // who is lost too soon would have another one speak
  // The one that speaks has said why; the others wait until it has written what there is to write.
  // Then MPI ends them, or torchrun tells them to end.
  for (int i = 0; i < 100 && !world_->speaks() && (by_mpi() || !interrupt_requested()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  wait_until_read(STDERR_FILENO);
  if (by_mpi()) session_->abort(status);
  std::_Exit(status);
}

}  // namespace frugal::harness
