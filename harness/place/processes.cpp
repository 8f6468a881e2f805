#include "harness/place/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "harness/measure/interrupt.h"
#include "harness/record/exit.h"
#include "kernels/cpu/cores.h"
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

std::unique_ptr<Processes> Processes::if_launched() {
  const int processes = told_by_launcher().processes;
  if (processes < 2) return nullptr;
  if (!are_connected())
    throw InputError(fmt::format(
        "{} processes were started that do not know each other; start them with srun --mpi=pmix "
        "or with Open MPI's mpirun, or one alone",
        processes));
  return std::unique_ptr<Processes>(new Processes());
}

Processes::Processes() {
  catch_interrupts();
  if (session_.rank() > 0) print_nothing();
  world_ = std::make_unique<World>(
      session_.rank(), session_.size(),
      [this](const std::string& address) { return session_.tell(address); },
      World::Options{.stop = interrupt_requested, .overdue = [this](const Failure& failure) {
                       if (world_->speaks()) fmt::print(stderr, "frugal: {}\n", failure.reason);
                       std::_Exit(static_cast<int>(exit_of(failure.kind)));
                     }});
  groups_ = mpi_groups(*world_);
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

json Processes::environment() const {
  json ranks = json::array();
  for (const RankPlaceHere& place : places_)
    ranks.push_back({{"host", place.host},
                     {"processors", ranges(place.processors)},
                     {"variables", place.variables}});
  return {{"mpi", mpi_version()}, {"ranks", ranks}};
}

int Processes::end(int status) {
  if (!world_->failure()) {
    world_->leave();
    return status;
  }
  session_.give_up();
  // The one that speaks has said why; the others wait until it has written what there is to write.
  for (int i = 0; i < 100 && !world_->speaks(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  session_.abort(status);
}

}  // namespace frugal::harness
