#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/schedule/kind.h"

namespace frugal::engine {

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

/// Thing that a stage does next. The model is cut into stages · chunks parts of layers
/// (PartLayout).
struct Action {
  ActionKind kind = ActionKind::forward;
  int chunk = 0;
  int microbatch = -1;  ///< of the run: batch · microbatches + its number in the batch; −1: step
  int version = -1;     ///< of the weights: which one a pass uses, or a step makes; −1: messages
  /// True if a forward pass is made together with the backward pass behind it, of another
  /// microbatch: while one of them waits for other ranks, the other one computes.
  bool beside_next = false;

  bool operator==(const Action&) const = default;
};

// What an action is: a pass through a chunk, the last pass that a microbatch makes through it (the
// one that completes its weights' gradient), a message, and a message that leaves.
bool is_pass(ActionKind kind);
bool completes_gradient(ActionKind kind);
bool is_message(ActionKind kind);
bool is_send(ActionKind kind);

using Actions = std::vector<Action>;

/// Actions of every stage of a pipeline, in order, for some batches of a run: from its fill to its
/// drain. Version v of the weights is what v steps have made of them.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_forward_one_backward;
  int stages = 1;
  int chunks = 1;        ///< parts of the model on each stage
  int microbatches = 1;  ///< of a batch
  int first_batch = 0;
  int batches = 1;
  std::vector<Actions> actions;  ///< of each stage

  PartLayout layout() const { return {stages, chunks, kind.placement}; }
  int first_microbatch() const { return first_batch * microbatches; }
  int end_microbatch() const { return (first_batch + batches) * microbatches; }
  int batch_of(int microbatch) const { return microbatch / microbatches; }
  /// Number of times the pipeline fills and drains, and what a stage does in between.
  int fills() const { return kind.flushes ? batches : 1; }
  StageFill fill(int stage) const {
    return {stage, stages, chunks, microbatches * (batches / fills())};
  }

  bool operator==(const Schedule&) const = default;
};

/// True if any backward pass is in two parts, whatever the kind says, and whether any passes are
/// made together.
bool splits_backward(const Schedule& schedule);
bool makes_together(const Schedule& schedule);

/// The other end of a message of this stage, and nothing where the model ends there.
std::optional<Seat> peer_of(const PartLayout& layout, int stage, const Action& message);
/// Other end where that is another stage: parts of one stage that follow each other send nothing.
std::optional<Seat> elsewhere(const PartLayout& layout, const Seat& seat, bool ahead);

}  // namespace frugal::engine
