#pragma once
#include <map>
#include <optional>
#include <unordered_map>

#include "engine/data/batch.h"
#include "engine/model/gpt.h"
#include "engine/optimizer/post_validation.h"
#include "engine/optimizer/weight_versions.h"
#include "engine/schedule/early_forwards.h"
#include "engine/schedule/timeline.h"
#include "engine/train/pass_memo.h"

namespace frugal::engine {

/// A schedule, and what the ranks of a pipeline execute it with.
struct ScheduleRun {
  const Schedule& schedule;
  /// Batches of the schedule, each with the microbatches of all replicas, one replica's after the
  /// other's.
  const std::vector<Batch>& batches;
  /// Scale of each batch: gradients are those of scale · Σ of the tokens' losses. Empty: there are
  /// no backward passes.
  std::vector<float> scales{};
  std::vector<OptimizerOptions> optimizer{};  ///< of each batch; empty: there are no steps
  bool training = true;                       ///< Pass::training
  output_layer::OnLogits on_logits{};         ///< of forward passes; may be empty
  bool keep_timeline = false;                 ///< makes real devices wait after each action
  /// Keeps gradients and steps nothing in backward passes, for those who want to see them.
  bool keep_gradients = false;
  bool memorizes = true;  ///< repeats passes without the model's code where that is possible
};

/// A message that was asked for, or a tensor of another chunk of the stage.
struct Arrival {
  Action action;  ///< the message, or the pass of this stage that made the tensor
  Tensor tensor;
  Pending pending;
};

/// A microbatch between its forward and its backward pass through a chunk.
struct Flight {
  enum class Progress : uint8_t {
    waiting,  ///< before its forward pass
    forward,  ///< between its forward and its backward pass
    pending,  ///< behind its backward pass, but for weight gradients
    over
  };
  int chunk = 0, microbatch = 0;
  Recompute recompute = Recompute::none;
  Gpt::Saved saved;
  Arrival activation, gradient;
  Tensor output, input_gradient;  ///< to be sent
  Deferred deferred;
  Progress progress = Progress::waiting;
  bool only_counted = false;  ///< the memo has made its passes, which have left no tensors
  bool turns = false;         ///< the pass behind its forward pass is its backward pass
  bool last = false;          ///< no other pass of its batch adds to the chunk's gradients

  /// Finished, including its sends.
  bool over() const {
    return progress == Progress::over && output.empty() && input_gradient.empty();
  }
};

/// Times of a stage's actions, in seconds on its device's clock; records nothing if off.
class StageTimeline {
 public:
  StageTimeline(Rank& rank, bool on) : rank_(rank), on_(on) {}

  /// Time at which all passes so far have ended.
  double now() const;
  /// Time for note(); 0 if off.
  double begin() const { return on_ ? now() : 0; }
  double begin(const Action& action) const { return on_ ? time_of(action) : 0; }
  /// Records an action that ends now.
  void note(const Action& action, double begin) {
    if (on_) spans.push_back({action, begin, time_of(action)});
  }
  void note_versions(size_t alive) {
    if (on_ && (versions.empty() || versions.back().alive != alive))
      versions.push_back({now(), alive});
  }

  std::vector<Span> spans;
  std::vector<VersionCount> versions;  ///< at the beginning and after each change

 private:
  double time_of(const Action& action) const;

  Rank& rank_;
  bool on_;
};

/// Messages between a stage and its neighbours, [s/t, b, h] each.
class StageMessages {
 public:
  StageMessages(Rank& rank, const Schedule& schedule) : rank_(rank), schedule_(schedule) {}

  void receive(const Action& action, Arrival& arrival);
  /// Receives and drops so many activations of the stage before.
  void receive_stale(int messages);
  /// Sends when the message before to the same side has left, whose memory is given back first.
  void send(const Action& action, const Tensor& tensor);
  /// Waits for all that was sent.
  void await_sent();

 private:
  struct Departure {
    Tensor tensor;
    Pending pending;
  };

  Communicator& group_of(ActionKind kind) const;
  /// Stage at the other end.
  int peer(const Action& message) const;

  Rank& rank_;
  const Schedule& schedule_;
  std::map<std::pair<ActionKind, int>, Departure> departures_;  // the last to each side
};

/// Passes of a stage: by the model's code, or where it did the same before, by a memo of that.
class StagePasses {
 public:
  StagePasses(Rank& rank, StageModel& model, WeightVersions& weights, Optimizer& optimizer,
              const ScheduleRun& run);
  ~StagePasses() { drop_flights(); }
  StagePasses(const StagePasses&) = delete;
  StagePasses& operator=(const StagePasses&) = delete;

  /// Microbatch that an action is about, on its way through the action's chunk.
  Flight& flight(const Action& action);
  /// Forgets a microbatch that is over.
  void end(const Action& action);
  /// Waits for all messages that were asked for.
  void await_arrivals();
  /// Makes a pass, or two together whose operands are there.
  void make(const std::vector<const Action*>& actions);
  /// Gives back what microbatches keep, also of those of which there are no tensors.
  void drop_flights();
  /// Σ over the tokens' losses of each batch; of the last stage. NaN on a device without values.
  std::vector<double> losses();

 private:
  /// A pass that is made, and what is made beside it, if anything is.
  struct Making {
    const Action& action;
    Flight& flight;
    Interleaving* beside = nullptr;

    bool forward() const { return action.kind == ActionKind::forward; }
  };

  /// Index of the batch, and of the microbatch in it, of all replicas.
  std::pair<size_t, size_t> place_of(const Action& action) const;
  /// Recomputation of a microbatch that begins.
  Recompute recomputation() const;
  /// Makes the rank compute with the first pass's version of the weights.
  void prepare(const std::vector<Making>& passes);
  Pass pass_of(const Making& making) const;
  /// Gathered weights of the action's version, where replicas divide them.
  std::optional<GatheredWeights> gathered_for(const Action& action) const;
  /// Releases gathered weights that a pass has left for one that was not made.
  void drop_gathered();
  void compute_all(const std::vector<Making>& passes);
  void compute(const Making& making);
  void forward(const Making& making);
  void backward(const Making& making);
  void weight_backward(const Making& making);
  static PassMemo::Ends ends_of(const Making& making);
  /// Ends a pass: moves its microbatch on.
  void leave(const Making& making);
  /// Passes the output to the next chunk if that is on this stage: no message is needed.
  void forward_locally(const Action& action, Flight& flight);
  /// True if the pass that completes a microbatch's gradients begins their sums over replicas.
  bool begins_sums(const Flight& flight) const;
  /// Makes the tensors that this pass needs of the microbatch's earlier ones, which the memo made.
  void make_tensors(const Action& action, Flight& flight);

  Rank& rank_;
  StageModel& model_;
  WeightVersions& weights_;
  Optimizer& optimizer_;
  const ScheduleRun& run_;
  std::optional<PassMemo> memo_;            // none where every pass is made by the code
  std::vector<ParameterList> overwritten_;  // of each chunk: may be fresh between two passes
  Tensor totals_;                           // [batches] f64
  std::unordered_map<int64_t, Flight> flights_;
};

/// Results of a rank's part in a schedule.
struct StageResult {
  std::vector<double> losses;          ///< Σ over the tokens of each batch; the last stage's
  std::vector<double> gradient_norms;  ///< of each batch that a step ended
  std::vector<double> step_ends;       ///< seconds on the device's clock
  std::vector<Span> timeline;          ///< with ScheduleRun::keep_timeline
  std::vector<VersionCount> versions;  ///< with ScheduleRun::keep_timeline
};

/// A rank's part in a schedule: executes its stage's actions one after the other, on any device.
/// Messages are sent and received as the schedule says; a pass waits for the message that it needs.
class StageExecutor {
 public:
  StageExecutor(Rank& rank, StageModel& model, WeightVersions& weights, Optimizer& optimizer,
                const ScheduleRun& run);

  /// Executes all actions, once. Throws what passes and steps throw; DeadlinePassed and OutOfMemory
  /// name stage and action.
  StageResult execute();

 private:
  /// A step that was begun and is validated later.
  struct Unvalidated {
    Action step;
    size_t index, end;  // its place, and that of the action before which it is validated
    int early;          // passes in between
  };

  /// Makes the pass at this index, or it and the next one together.
  void execute_passes(size_t index);
  void execute_message(const Action& action);
  /// Waits for what the pass needs.
  void prepare(const Action& pass, size_t index);
  void wait(const Action& action, Arrival& arrival, const char* what);
  /// Waits for messages under way, on a virtual device whose stages exchange them.
  void exchange();
  void step(const Action& action, size_t index);
  /// Begins a step that does not meet the other stages: up to its validation.
  void begin_step(const Action& action, size_t index);
  /// Validates the step that was begun, if it is due before this action. Returns the action with
  /// which the stage goes on: where the step did not stand, the first one behind it.
  size_t validate_before(size_t index);
  /// Returns true if the step stood. Otherwise all stages make the forward passes behind it again:
  /// they have made nothing else.
  bool validate_step();

  int batch_ended_by(const Action& step) const {
    return step.version - 1 - run_.schedule.first_batch;
  }
  /// True if the stage's next pass is through the same chunk by the same microbatch.
  bool turns_after(size_t index) const;
  /// True if no later pass of the batch adds to the gradients of the same chunk.
  bool last_after(size_t index) const;

  Rank& rank_;
  StageModel& model_;
  WeightVersions& weights_;
  Optimizer& optimizer_;
  const ScheduleRun& run_;
  const Actions& actions_;  // of this stage
  StageTimeline timeline_;
  StageMessages messages_;
  StagePasses passes_;
  PostValidation post_validation_;
  EarlyForwards early_forwards_;  // of a run that validates its steps later
  std::optional<Unvalidated> unvalidated_;
  std::map<int, size_t> last_use_;  // of each version, in the stage's actions
  StageResult result_;
};

}  // namespace frugal::engine
