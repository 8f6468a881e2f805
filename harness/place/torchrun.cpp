#include "harness/place/torchrun.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "engine/options/rules.h"
#include "harness/record/record.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

constexpr std::array torchruns = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"};

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number_of(const char* name, int least, int most) {
  const std::string text = value_of(name);
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && read == end && number >= least && number <= most) return number;
  throw InputError(fmt::format(
      "{} is \"{}\", and must be a whole number from {} to {}, as torchrun sets it; start the "
      "processes by torchrun, or unset RANK to run alone",
      name, text, least, most));
}

/// Who starts processes by MPI may tell them the same, for others that want it.
bool are_mpis(int rank, int size) {
  constexpr std::array<std::array<const char*, 2>, 2> variables = {
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}};
  return !value_of("PMIX_RANK").empty() &&
         std::any_of(variables.begin(), variables.end(), [&](const auto& names) {
           return value_of(names[0]) == std::to_string(rank) &&
                  value_of(names[1]) == std::to_string(size);
         });
}

}  // namespace

std::optional<Torchrun> Torchrun::found() {
  if (std::any_of(torchruns.begin(), torchruns.end(),
                  [](const char* name) { return value_of(name).empty(); }))
    return std::nullopt;
  constexpr int most_ports = 65535;
  Torchrun told;
  told.size = number_of("WORLD_SIZE", 1, static_cast<int>(rules::most_ranks));
  told.rank = number_of("RANK", 0, told.size - 1);
  told.host = value_of("MASTER_ADDR");
  const bool is_taken = value_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
  told.port = number_of("MASTER_PORT", 1, is_taken ? most_ports - 1 : most_ports) + is_taken;
  told.name = hash_of(fmt::format("{} {} {}", value_of("TORCHELASTIC_RUN_ID"),
                                  value_of("TORCHELASTIC_RESTART_COUNT"), told.size));
  if (told.size == 1 || are_mpis(told.rank, told.size)) return std::nullopt;
  return told;
}

}  // namespace frugal::harness
