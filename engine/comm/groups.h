#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/namespace.h"
#include "kernels/device.h"

namespace frugal::engine {

/// Neighbours to whom the ranks of a group send messages, in the order of the group.
enum class MessagesTo : uint8_t { nobody, next, previous };

/// Ranks that communicate with each other: those whose coordinates differ in some axes alone.
struct GroupSpec {
  std::string_view name;                      ///< "tensor"
  std::array<std::string_view, 2> axes = {};  ///< of a Topology, the inner one first; "": none
  Stream stream = Stream::communication;      ///< carries all that the group communicates
  MessagesTo messages = MessagesTo::nobody;
  bool ends = false;  ///< only the first and the last rank of the axes are members
};

/// The groups of every run, one a line. Communicators (engine/rank.h) has a member of each name.
/// Streams are shared by groups that may wait for each other: sums of tensor parallelism do not
/// queue behind weights that replicas gather, and neighbouring stages send to each other at the
/// same time.
#define FRUGAL_GROUPS(GROUP)                                             \
  GROUP(tensor, .axes = {"tensor"}, .stream = Stream::communication)     \
  GROUP(context, .axes = {"heads", "ring"}, .stream = Stream::sequences) \
  GROUP(heads, .axes = {"heads"}, .stream = Stream::sequences)           \
  GROUP(ring, .axes = {"ring"}, .stream = Stream::sequences)             \
  GROUP(stages, .axes = {"stages"}, .stream = Stream::stages)            \
  GROUP(activations, .axes = {"stages"}, .stream = Stream::activations,  \
        .messages = MessagesTo::next)                                    \
  GROUP(gradients, .axes = {"stages"}, .stream = Stream::gradients,      \
        .messages = MessagesTo::previous)                                \
  GROUP(data, .axes = {"data"}, .stream = Stream::replicas)              \
  GROUP(shards, .axes = {"shards"}, .stream = Stream::replicas)          \
  GROUP(copies, .axes = {"copies"}, .stream = Stream::replicas)          \
  GROUP(ends, .axes = {"stages"}, .stream = Stream::ends, .ends = true)

namespace group {
#define FRUGAL_GROUP(NAME, ...) inline constexpr GroupSpec NAME{.name = #NAME, __VA_ARGS__};
FRUGAL_GROUPS(FRUGAL_GROUP)
#undef FRUGAL_GROUP
}  // namespace group

#define FRUGAL_GROUP(NAME, ...) group::NAME,
inline constexpr std::array all_groups = {FRUGAL_GROUPS(FRUGAL_GROUP)};
#undef FRUGAL_GROUP

}  // namespace frugal::engine
