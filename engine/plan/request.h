#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "engine/config.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"

namespace frugal::engine {

/// Activations that a configuration computes again.
struct Recomputation {
  Recompute kind = Recompute::none;
  LayerModules modules = RunConfig::cores;  ///< of Recompute::selective
};

/// Number of ranks that share each sequence, and how they attend over it.
struct Sharing {
  int ranks = 1;  ///< [c]
  ContextKind kind = ContextKind::ulysses;
};

/// Plan that is asked for: of a model on so many devices of a machine, and which configurations are
/// considered.
struct PlanRequest {
  /// Model, type and all that is neither divided, ordered, recomputed nor searched below.
  RunConfig run;
  Machine machine;
  int devices = 1;                ///< [N], all of which are used
  int64_t batch = 1;              ///< [B], sequences
  int64_t memory = 0;             ///< bytes of each device
  std::vector<int> tensor = {1};  ///< tensor-parallel sizes to consider
  std::vector<Sharing> contexts = {{}};
  std::vector<ScheduleKind> schedules = {ScheduleKind::two_buffered};
  std::vector<Recomputation> recompute = {{Recompute::none}, {Recompute::stage}};
  std::vector<Shard> shards = {Shard::none};
  /// True if of layers that could not keep all as few may be recomputed as fit in memory
  /// (RunConfig::recompute_layers), where nothing that was found is faster.
  bool some_layers = false;
  /// True if just enough activations may go to the host's memory to make a configuration fit
  /// (RunConfig::offload_modules), where that may be the fastest.
  bool searches_offload = false;
  /// True if the stages of a schedule that flushes may also validate their steps later
  /// (StepValidation::after), where without its bubble it would be the fastest that was found.
  bool late_steps = false;
  /// True if stages may also have as many layers each as makes them equally fast.
  bool balanced_stages = false;
  /// A configuration that takes longer than so many times the fastest that fits is counted and not
  /// kept; what its stages compute often says that it does, and then it is not predicted.
  double within = std::numeric_limits<double>::infinity();
  static constexpr double usual_within = 1.1;  ///< where somebody looks at the best alone
  /// True if what is neither the first choice nor close to it may be left out: what recomputes
  /// though it fits without, and what misses by more than `nearly` whatever it recomputes.
  bool brief = false;
  static constexpr double nearly = 0.1;  ///< of the memory
  int threads = 1;                       ///< of the search
  /// Most chunks of a stage where the schedule does not say how many it has.
  static constexpr int most_chunks = 8;

  /// Considers all schedules that flush, all that can be recomputed within a layer, of all layers
  /// or some, or offloaded, steps that are validated later, all shards, balanced stages, and
  /// sequences shared by all numbers of ranks in balanced_contexts().
  void search_all();
  /// One rank, and all that divide devices and sequence and that the model can share it among in
  /// one of these ways: none where it has dropout or keeps scores.
  std::vector<Sharing> sharings(const std::vector<ContextKind>& kinds) const;
  /// Ulysses, and of rings the one in which all ranks compute as much: zigzag where attention is
  /// causal.
  std::vector<ContextKind> balanced_contexts() const;
  /// Throws InputError that names the flag, the value, and what is allowed.
  void validate() const;
};

/// All numbers that divide n, in ascending order.
std::vector<int64_t> divisors(int64_t n);
/// Configuration with all activations on the device.
RunConfig without_offload(RunConfig run);
/// Rule that forbids a configuration (RunConfig::validate); none where it is allowed.
std::optional<InputError> broken_rule(const RunConfig& run);

}  // namespace frugal::engine
