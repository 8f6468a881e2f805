#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/namespace.h"

// The schedules, one line each, in the order in which the command line lists them. Each is defined
// in a file of engine/schedule/kinds/, alone or with its family.
// clang-format off
#define FRUGAL_SCHEDULES    \
  inter_layer,              \
  gpipe,                    \
  one_forward_one_backward, \
  interleaved,              \
  pipedream,                \
  pipedream_vertical_sync,  \
  two_buffered,             \
  zero_bubble_h1,           \
  zero_bubble_h2,           \
  interleaved_zero_bubble,  \
  zero_bubble_v,            \
  v_half,                   \
  v_min,                    \
  dual_pipe_v
// clang-format on

namespace frugal::engine {

/// Placement of a model's parts on the stages of a pipeline.
enum class Placement : uint8_t {
  around,     ///< each chunk goes from the first stage to the last: part c · p + s is chunk c of s
  to_and_fro  ///< every other chunk goes back, in a V: part c · p + (p − 1 − s) for odd c
};

/// A chunk of a stage: where a part of the model is.
struct Seat {
  int stage = 0;
  int chunk = 0;

  bool operator==(const Seat&) const = default;
};

/// Part of the model that each chunk of each stage is. Activations go from part j to part j + 1,
/// gradients back.
struct PartLayout {
  int stages = 1;  ///< [p]
  int chunks = 1;  ///< of each stage
  Placement placement = Placement::around;

  int parts() const { return stages * chunks; }
  int part_at(const Seat& seat) const {
    return seat.chunk * stages + (goes_back(seat.chunk) ? stages - 1 - seat.stage : seat.stage);
  }
  Seat seat_of(int part) const {
    const int chunk = part / stages, along = part % stages;
    return {goes_back(chunk) ? stages - 1 - along : along, chunk};
  }
  /// Place of the part behind this one, or (not `ahead`) the one before it. Nothing at the ends of
  /// the model.
  std::optional<Seat> neighbour(const Seat& seat, bool ahead) const {
    const int part = part_at(seat) + (ahead ? 1 : -1);
    if (part < 0 || part >= parts()) return std::nullopt;
    return seat_of(part);
  }
  /// Pairs of stages between which activations go, or (not `ahead`) gradients; ascending, each
  /// once.
  std::vector<std::pair<int, int>> ways(bool ahead) const {
    std::set<std::pair<int, int>> found;
    for (int part = 0; part < parts(); ++part) {
      const Seat from = seat_of(part);
      const auto to = neighbour(from, ahead);
      if (to && to->stage != from.stage) found.emplace(from.stage, to->stage);
    }
    return {found.begin(), found.end()};
  }
  /// The stage that has the output head. The first has the embedding.
  int last_stage() const { return seat_of(parts() - 1).stage; }
  /// True if this chunk's activations go from the last stage to the first.
  bool goes_back(int chunk) const { return placement == Placement::to_and_fro && chunk % 2 == 1; }
};

class Passes;

/// A stage of a pipeline, from its fill to its drain: microbatches that follow each other without a
/// flush, counted from 0.
struct StageFill {
  int stage = 0;         ///< [s]
  int stages = 1;        ///< [d, or p]
  int chunks = 1;        ///< [v] of each stage
  int microbatches = 1;  ///< of one batch with a flush, of all batches without

  int to_end() const { return stages - stage; }  ///< stages from this one on
};

/// The versions of the weights when a stage begins a microbatch's forward.
struct VersionsThen {
  int batch = 0;            ///< the microbatch's: what all batches before its own make
  int newest = 0;           ///< of its stage
  int newest_of_first = 0;  ///< the newest that stage 0 had at this microbatch's forward
};

/// Course of one microbatch after another in a full pipeline.
enum class SteadyState : uint8_t {
  alone,          ///< it is in all stages together before the next one begins
  one_way,        ///< it follows the one before it in the same direction
  there_and_back  ///< it takes turns with those that come back: one forward, one backward
};

/// A pipeline schedule: all that the engine, the planner and the command line ask of it. It says in
/// which order a stage makes its passes; messages, steps and versions are added to all kinds alike
/// (schedules.h). Functions take any entry; the command line and files know those that are listed.
struct ScheduleKind {
  std::string_view name;    ///< as on the command line, in JSON and in files
  std::string_view help;    ///< what it is, in one line
  std::string_view source;  ///< the paper, and where in it

  /// True if the pipeline drains after each batch, so that a batch sees the weights that all before
  /// it have made.
  bool flushes = true;
  /// Steps by which gradients come late: batch b is computed with version max(b − delay, 0).
  int delay = 0;
  /// Exception to that rule: the version that a forward uses, whose backward uses it too.
  int (*version)(const VersionsThen& there) = nullptr;
  /// Versions of its weights that a stage keeps at most, where that is not delay + 1.
  int (*versions)(const StageFill& fill) = nullptr;
  /// True if both ends of the model can train one token table.
  bool ties_tables = true;

  /// True if gradients of inputs and of weights are computed in passes of their own.
  bool splits_backward = false;
  /// True if a stage makes forward passes together with backward passes of other microbatches.
  bool makes_together = false;
  /// True if a stage has several parts of the model, how many where that is given (0: any), and the
  /// kind that this is with one.
  bool has_chunks = false;
  int chunks = 0;
  std::string_view with_one_chunk = {};
  /// Stage of each of them.
  Placement placement = Placement::around;

  /// The microbatches of a batch are at least so many for each stage, and why; 0: they may be few.
  int least_per_stage = 0;
  std::string_view why_least = {};

  SteadyState steady = SteadyState::there_and_back;

  /// Gives the order in which a stage makes its passes (passes.h).
  Passes (*passes)(const StageFill& fill);
  /// Microbatches, times chunks, that a stage has between forward and backward at most, as the
  /// paper says. The checker holds every schedule to it.
  int (*in_flight)(const StageFill& fill);

  /// Chunks of each stage where nobody says how many.
  int usual_chunks() const { return std::max(chunks, 1); }
  /// True if the planner predicts it: where weights are stashed it does not (docs/planner.md).
  bool predicted() const { return flushes || version == nullptr; }
  int version_of(const VersionsThen& there) const {
    return version != nullptr ? version(there) : std::max(there.batch - delay, 0);
  }
  int versions_limit(const StageFill& fill) const {
    return versions != nullptr ? versions(fill) : delay + 1;
  }

  static const ScheduleKind FRUGAL_SCHEDULES;
  static const std::vector<ScheduleKind>& all();
  static std::vector<std::string> names() {
    return names([](const ScheduleKind&) { return true; });
  }
  /// Names of the kinds that have a trait: names(&ScheduleKind::flushes).
  template <class Trait>
  static std::vector<std::string> names(Trait trait) {
    std::vector<std::string> names;
    for (const ScheduleKind& kind : all())
      if (std::invoke(trait, kind)) names.emplace_back(kind.name);
    return names;
  }

  bool operator==(const ScheduleKind&) const = default;
};

inline std::string_view name_of(const ScheduleKind& kind) { return kind.name; }
/// The inverse; nothing for a name that is none of them.
std::optional<ScheduleKind> schedule_kind(std::string_view name);

}  // namespace frugal::engine
