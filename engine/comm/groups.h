#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/namespace.h"
#include "kernels/device.h"

namespace frugal::engine {

/// Streams of what ranks communicate. Groups share one where they may wait for each other. Sums of
/// tensor parallelism do not queue behind weights that replicas gather; neighbouring stages send to
/// each other at the same time; and the ends of a pipeline may wait long for each other.
namespace streams {
inline constexpr StreamSpec tensors{"communication", StreamUse::collectives},
    sequences{"sequences", StreamUse::collectives}, replicas{"replicas", StreamUse::collectives},
    stages{"stages", StreamUse::collectives}, activations{"activations", StreamUse::messages},
    gradients{"gradients", StreamUse::messages}, ends{"ends", StreamUse::messages};
/// Messages of stages that form a ring: those received do not wait for those sent.
inline constexpr StreamSpec arriving_activations{"arriving activations", StreamUse::messages},
    arriving_gradients{"arriving gradients", StreamUse::messages};
/// Messages of a chunk that goes back, where the stages form a V.
inline constexpr StreamSpec returning_activations{"returning activations", StreamUse::messages},
    returning_gradients{"returning gradients", StreamUse::messages};
}  // namespace streams

/// Neighbours to whom the ranks of a group send messages, in the order of the group.
enum class MessagesTo : uint8_t { nobody, next, previous };

/// Ranks that communicate with each other: those whose coordinates differ in some axes alone.
struct GroupSpec {
  std::string_view name;                      ///< "tensor"
  std::array<std::string_view, 2> axes = {};  ///< of a Topology, the inner one first; "": none
  StreamSpec stream = streams::tensors;       ///< carries all that the group communicates
  MessagesTo messages = MessagesTo::nobody;
  bool ends = false;  ///< only the first and the last rank of the axes are members
};

/// The groups of every run, one a line. Communicators (engine/rank.h) has a member of each name.
#define FRUGAL_GROUPS(GROUP)                                              \
  GROUP(tensor, .axes = {"tensor"}, .stream = streams::tensors)           \
  GROUP(context, .axes = {"heads", "ring"}, .stream = streams::sequences) \
  GROUP(heads, .axes = {"heads"}, .stream = streams::sequences)           \
  GROUP(ring, .axes = {"ring"}, .stream = streams::sequences)             \
  GROUP(stages, .axes = {"stages"}, .stream = streams::stages)            \
  GROUP(activations, .axes = {"stages"}, .stream = streams::activations,  \
        .messages = MessagesTo::next)                                     \
  GROUP(gradients, .axes = {"stages"}, .stream = streams::gradients,      \
        .messages = MessagesTo::previous)                                 \
  GROUP(data, .axes = {"data"}, .stream = streams::replicas)              \
  GROUP(shards, .axes = {"shards"}, .stream = streams::replicas)          \
  GROUP(copies, .axes = {"copies"}, .stream = streams::replicas)          \
  GROUP(ends, .axes = {"stages"}, .stream = streams::ends, .ends = true)

namespace group {
#define FRUGAL_GROUP(NAME, ...) inline constexpr GroupSpec NAME{.name = #NAME, __VA_ARGS__};
FRUGAL_GROUPS(FRUGAL_GROUP)
#undef FRUGAL_GROUP
}  // namespace group

#define FRUGAL_GROUP(NAME, ...) group::NAME,
inline constexpr std::array all_groups = {FRUGAL_GROUPS(FRUGAL_GROUP)};
#undef FRUGAL_GROUP

}  // namespace frugal::engine
