#pragma once
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "engine/data/batch.h"
#include "engine/model/stage.h"
#include "engine/optimizer/post_validation.h"
#include "engine/optimizer/unsharded_weights.h"
#include "engine/schedule/early_forwards.h"
#include "engine/schedule/timeline.h"
#include "engine/train/pass_memo.h"

namespace frugal::engine {

/// What the ranks of a pipeline do together: a schedule, and what it is done with.
struct ScheduleRun {
  const Schedule& schedule;
  /// Of the schedule's batches, each with the microbatches of all replicas, one replica's after the
  /// other's.
  const std::vector<Batch>& batches;
  /// For each batch: its gradients are those of `scale` · Σ of the tokens' losses.
  /// Empty: there are no backward passes.
  std::vector<float> scales{};
  std::vector<OptimizerOptions> optimizer{};
  bool training = true;  ///< Pass::training
  OnLogits on_logits{};  ///< Pass::on_logits; empty: nobody looks at them
};

/// One rank's part in a schedule: executes its stage's actions one after the other, on any device.
/// Messages are sent and received as the schedule says; a pass waits for the message that it needs.
class StageExecutor {
 public:
  StageExecutor(Rank& rank, StageModel& model, WeightVersions& weights, Optimizer& optimizer)
      : rank_(rank),
        model_(model),
        weights_(weights),
        optimizer_(optimizer),
        post_validation_(rank, optimizer.update()) {}

  struct Result {
    std::vector<double> losses;          ///< Σ over the tokens of each batch; the last stage's
    std::vector<double> gradient_norms;  ///< of each batch that a step ended
    std::vector<double> step_ends;       ///< seconds on the device's clock
    // In seconds on the device's clock, where the timeline was kept:
    std::vector<Span> timeline;
    std::vector<VersionCount> versions;  ///< at the beginning and after each change
  };
  /// Throws what passes and steps throw. DeadlinePassed and OutOfMemory name stage and action.
  Result run(const ScheduleRun& run);

  bool keep_timeline = false;
  /// Of a run that steps in backward: gradients are kept and nothing is stepped, for those who want
  /// to see them.
  bool keep_gradients = false;

 private:
  /// A message that was asked for.
  struct Arrival {
    Action action;  ///< a pass of this stage that made it, where it is no message
    Tensor tensor;
    Pending pending;
  };
  /// How far a microbatch is with its passes through a chunk.
  enum class Progress : uint8_t {
    waiting,  ///< for its forward pass
    forward,  ///< that has been made, and a backward pass is to come
    owing,    ///< its backward pass has been made, but for weight gradients
    over
  };
  /// What its passes have left for those to come.
  enum class Kept : uint8_t {
    tensors,
    bytes  ///< the memo has made them: what they keep is counted, but not there
  };
  /// A microbatch between its forward and its backward pass through a chunk.
  struct Flight {
    Recompute recompute = Recompute::none;
    Gpt::Saved saved;
    Arrival activation, gradient;
    Tensor output, input_gradient;  // to be sent
    Deferred deferred;
    Progress progress = Progress::waiting;
    Kept kept = Kept::tensors;
    bool turns = false;  ///< the pass behind its forward pass is its backward pass
    bool last = false;   ///< no other pass of its batch adds to the chunk's gradients

    int chunk = 0, microbatch = 0;

    /// What it had to send has been sent, too.
    bool over() const {
      return progress == Progress::over && output.empty() && input_gradient.empty();
    }
  };
  /// A pass that is made, and what is made beside it, if anything is.
  struct Making {
    const Action& action;
    Flight& flight;
    Interleaving* beside = nullptr;

    bool forward() const { return action.kind == ActionKind::forward; }
  };
  /// A message on its way.
  struct Departure {
    ActionKind kind;
    int peer;
    Tensor tensor;
    Pending pending;
  };

  void execute(const Action& action, size_t index);
  /// Two passes that hide each other's communication.
  void execute_together(const Action& first, const Action& second, size_t index);
  /// The microbatch that an action is about, with what it needs there.
  Flight& ready_for(const Action& action, size_t index);
  void perform(const Action& action, Flight& flight);
  /// Lets go of what nothing needs behind an action.
  void end(const Action& action, size_t index);
  /// Names the stage and the action in what goes wrong meanwhile.
  void named(const Action& action, const std::function<void()>& make) const;
  /// The stage at the other end.
  int peer(const Action& message) const;
  void receive(const Action& action, Communicator& from, Arrival& arrival);
  void wait(const Action& action, Arrival& arrival, const char* what);
  /// When all passes so far have ended, on the device's clock.
  double now();
  void note(const Action& action, double begin);
  void note_versions();
  void send(const Action& action, Communicator& to, const Tensor& tensor);
  /// For all that was sent.
  void await_departures();
  /// Where messages are exchanged, on a virtual device, a stage goes on when those that are under
  /// way are there.
  void exchange();
  void step(const Action& action, size_t index);

  // Of steps that are validated later (stage_validation.cpp):

  /// Steps as far as the stage can without the others.
  void begin_step(const Action& action, size_t index);
  /// Makes the step that was begun, where it is validated before this action. Returns the action
  /// with which the stage goes on: where the step did not stand, the first one behind it.
  size_t validate_before(size_t index);
  /// Returns whether it stood.
  bool validate_step();
  /// Takes in what the stage before has sent of forward passes that are made again, but for those
  /// messages that were received.
  void receive_stale(int messages);
  /// The chunk and the microbatch in one number.
  static int64_t flight_of(const Action& action) {
    return int64_t{action.microbatch} << 32 | action.chunk;
  }
  /// Whether the stage's next pass after this one is through the same chunk by the same microbatch.
  bool turns_after(size_t index) const;
  /// Whether no pass of the batch behind this one adds to the gradients of the same chunk.
  bool last_after(size_t index) const;
  std::string text(const Action& action) const;

  // Of passes (stage_passes.cpp):

  /// To which the memory belongs that an action needs.
  static Place memory_of(const Action& action) { return {-1, action.microbatch}; }
  /// [s/t, b, h]: what stages send to each other.
  Tensor hidden_state(Place place);
  /// Which of the run's batches, and which of its microbatches, of all replicas.
  std::pair<size_t, size_t> place_of(const Action& action) const;
  /// Recomputation of a microbatch that begins.
  Recompute recomputation() const;
  /// Makes the rank compute with the action's version of the weights.
  void use_weights(const Action& action);
  /// What the model's code is told of a pass.
  Pass pass_of(const Making& making) const;
  /// Those of its version, where ranks divide them.
  std::optional<GatheredWeights> gathered_for(const Action& action) const;
  /// Gives back what a pass has left for one that was not made.
  void drop_gathered();
  /// Gives what the pass has made to the chunk of this stage that takes it, if there is one.
  void hand_over(const Action& action, Flight& flight);
  /// One, or two together: by the model's code, or where it did the same before, without it.
  void make_passes(const std::vector<Making>& passes);
  void compute_all(const std::vector<Making>& passes);
  void compute(const Making& making);
  static PassMemo::Ends ends_of(const Making& making);
  /// What a pass leaves when it has been made.
  void leave(const Making& making);
  Progress progress_after(ActionKind pass) const;
  void forward(const Making& making);
  void backward(const Making& making);
  void weight_backward(const Making& making);
  /// Whether the pass that completes a microbatch's gradients begins their sums over replicas.
  bool begins_sums(const Flight& flight) const;
  /// Those that this pass needs from the microbatch's earlier ones, which the memo has made.
  void make_tensors(const Action& action, Flight& flight);
  /// What a microbatch keeps of which there are no tensors has to be given back all the same.
  void drop_flights();

  Rank& rank_;
  StageModel& model_;
  WeightVersions& weights_;
  Optimizer& optimizer_;
  PostValidation post_validation_;
  EarlyForwards early_forwards_;  // of a run that validates its steps later
  /// A step that was begun.
  struct Unvalidated {
    Action step;
    size_t index, end;  // its place, and that of the action before which it is validated
    int early;          // passes in between
  };
  std::optional<Unvalidated> unvalidated_;
  std::optional<PassMemo> memo_;  // none where every pass is made by the code
  // Of each chunk, those whose gradients may be fresh between two passes.
  std::vector<ParameterList> overwritten_;

  const ScheduleRun* run_ = nullptr;
  Result result_;
  Tensor totals_;                                // [batches] f64
  std::unordered_map<int64_t, Flight> flights_;  // by flight_of()
  std::vector<Departure> departures_;            // the last one sent to each side
  std::map<int, size_t> last_use_;               // of each version, in the stage's actions
};

}  // namespace frugal::engine
