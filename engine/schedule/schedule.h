#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frugal {

/// Which pipeline schedule (engine/schedule/schedules.h has one function for each).
enum class ScheduleKind : uint8_t {
  inter_layer,               ///< one microbatch at a time: model parallelism without a pipeline
  gpipe,                     ///< all forward passes, then all backward passes
  one_forward_one_backward,  ///< PipeDream-Flush
  interleaved,               ///< the same with several chunks of the model on each stage
  pipedream,                 ///< no flush; weights stashed per microbatch
  pipedream_vertical_sync,   ///< the same; a microbatch sees one version on all stages
  two_buffered,              ///< PipeDream-2BW
  zero_bubble_h1,            ///< 1F1B with backward split in two, at 1F1B's memory
  zero_bubble_h2             ///< the same at twice the memory, without a bubble
};
/// As on the command line: "inter-layer", "gpipe", "1f1b", "interleaved", "pipedream",
/// "pipedream-vertical-sync", "2bw", "zb-h1", "zb-h2".
std::string_view name_of(ScheduleKind kind);
inline constexpr int schedule_kinds = 9;
/// The inverse; nothing for a name that is none of them.
std::optional<ScheduleKind> schedule_kind(std::string_view name);
/// Whether the pipeline drains after each batch, so that a batch sees the weights that all before
/// it have made.
bool flushes(ScheduleKind kind);
/// Whether a stage has several parts of the model.
bool has_chunks(ScheduleKind kind);
/// Whether gradients of inputs and of weights are computed in passes of their own.
bool splits_backward(ScheduleKind kind);

enum class ActionKind : uint8_t {
  forward,
  backward,         ///< of inputs and weights
  input_backward,   ///< the gradient of the input alone
  weight_backward,  ///< what input_backward left out
  receive_activation,
  send_activation,
  receive_gradient,
  send_gradient,
  step  ///< the optimizer's, after the last microbatch of a batch
};

/// What a stage does next. The model is cut into stages · chunks parts of layers; chunk c of stage
/// s is part c · stages + s. Activations go from part j to part j + 1, gradients back.
struct Action {
  ActionKind kind = ActionKind::forward;
  int chunk = 0;
  int microbatch = -1;  ///< of the run: batch · microbatches + its number in the batch; −1: step
  int version = -1;     ///< of the weights: which one a pass uses, or a step makes; −1: messages

  bool operator==(const Action&) const = default;
};

// What an action is: a pass through a chunk, the last pass that a microbatch makes through it (the
// one that completes its weights' gradient), a message, and a message that leaves.
bool is_pass(ActionKind kind);
bool completes_gradient(ActionKind kind);
bool is_message(ActionKind kind);
bool is_send(ActionKind kind);

using Actions = std::vector<Action>;

/// What every stage of a pipeline does, in order, for some batches of a run: from its fill to its
/// drain. Version v of the weights is what v steps have made of them.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_forward_one_backward;
  int stages = 1;
  int chunks = 1;        ///< parts of the model on each stage
  int microbatches = 1;  ///< of a batch
  int first_batch = 0;
  int batches = 1;
  std::vector<Actions> actions;  ///< of each stage

  int parts() const { return stages * chunks; }
  int first_microbatch() const { return first_batch * microbatches; }
  int end_microbatch() const { return (first_batch + batches) * microbatches; }
  int batch_of(int microbatch) const { return microbatch / microbatches; }

  bool operator==(const Schedule&) const = default;
};

/// The same of a schedule's passes, whatever its kind.
bool splits_backward(const Schedule& schedule);

/// Where a message goes to or comes from: the stage at the other end, and the chunk there.
struct Peer {
  int stage = 0;
  int chunk = 0;
};
/// The other end of a message, or of the message that a pass of this chunk would have: `ahead`
/// towards the last part. Nothing at the ends of the model.
std::optional<Peer> neighbour(const Schedule& schedule, int stage, int chunk, bool ahead);
/// The other end of a message of this stage, and nothing where the model ends there.
std::optional<Peer> peer_of(const Schedule& schedule, int stage, const Action& message);

}  // namespace frugal
