#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// How a model's parts lie on the stages of a pipeline.
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

/// Which part of the model each chunk of each stage is. Activations go from part j to part j + 1,
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
  /// Where the part behind this one is, or (not `ahead`) the one before it. Nothing at the ends of
  /// the model.
  std::optional<Seat> neighbour(const Seat& seat, bool ahead) const {
    const int part = part_at(seat) + (ahead ? 1 : -1);
    if (part < 0 || part >= parts()) return std::nullopt;
    return seat_of(part);
  }
  /// From which stages to which activations go, or (not `ahead`) gradients; ascending, each once.
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
  /// Whether this chunk's activations go from the last stage to the first.
  bool goes_back(int chunk) const { return placement == Placement::to_and_fro && chunk % 2 == 1; }
};

}  // namespace frugal::engine
