#include "engine/train/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

#include "engine/comm/parallel.h"
#include "engine/model/saved.h"
#include "engine/schedule/text.h"
#include "engine/train/host_tensor.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

/// [s/t, b, h]: what stages send to each other.
Tensor hidden_state(Rank& rank) {
  const RunConfig& c = rank.config;
  return rank.allocate(c.type, {parallel::local_sequence(rank), c.micro_batch, c.model.hidden},
                       Kind::communication);
}

int stage_after(const Rank& rank) { return (rank.stage() + 1) % rank.config.pipeline_parallel; }
int stage_before(const Rank& rank) {
  const int stages = rank.config.pipeline_parallel;
  return (rank.stage() + stages - 1) % stages;
}

/// When all passes so far have ended.
double time_of(Rank& rank) {
  if (!rank.device.backed()) return rank.device.record(Stream::compute).time;
  rank.device.synchronize();
  return rank.device.now();
}

/// The same before and after an action: a virtual device's messages go on beside the passes, and
/// one sets out when those before it have arrived.
double time_of(Rank& rank, const Action& action) {
  const double passed = time_of(rank);
  if (rank.device.backed() || !is_send(action.kind)) return passed;
  const Stream stream =
      action.kind == ActionKind::send_activation ? Stream::activations : Stream::gradients;
  return std::max(passed, rank.device.record(stream).time);
}

}  // namespace

StageExecutor::Result StageExecutor::run(const ScheduleRun& run) {
  run_ = &run;
  result_ = {};
  memo_.reset();
  if (PassMemo::possible(rank_)) memo_.emplace(rank_);
  const Actions& actions = run.schedule.actions.at(static_cast<size_t>(rank_.stage()));
  last_use_.clear();
  for (size_t i = 0; i < actions.size(); ++i)
    if (is_pass(actions[i].kind)) last_use_[actions[i].version] = i;
  totals_ = rank_.allocate(DType::f64, {run.schedule.batches}, Kind::statistics);
  rank_.run(Fill{totals_, 0});
  note_versions();
  for (size_t i = 0; i < actions.size(); ++i) {
    try {
      execute(actions[i], i);
      note_versions();
    } catch (const DeadlinePassed& e) {
      throw DeadlinePassed(text(actions[i]) + ": " + e.what());
    } catch (const OutOfMemory& e) {
      throw OutOfMemory(text(actions[i]) + ": " + e.what(), e.requested, e.in_use, e.capacity);
    }
  }
  optimizer_.finish(rank_);
  for (auto* last : {&activation_, &gradient_}) {
    if (*last) (*last)->pending.wait();
    last->reset();
  }
  result_.losses.assign(static_cast<size_t>(run.schedule.batches),
                        std::numeric_limits<double>::quiet_NaN());
  if (rank_.device.backed()) rank_.device.copy_to_host(result_.losses.data(), totals_);
  totals_.release();
  return std::move(result_);
}

std::string StageExecutor::text(const Action& action) const {
  return fmt::format("stage {}, {}", rank_.stage(), to_text(action, run_->schedule.chunks));
}

void StageExecutor::execute(const Action& action, size_t index) {
  if (action.kind == ActionKind::step) {
    step(action, index);
    return;
  }
  const auto found = flights_.try_emplace({action.chunk, action.microbatch}).first;
  Flight& flight = found->second;
  // A pass begins when what it needs has come.
  if (action.kind == ActionKind::forward) {
    flight.turns = turns_after(index);
    wait(flight.activation);
  }
  if (action.kind == ActionKind::backward || action.kind == ActionKind::input_backward)
    wait(flight.gradient);
  if (is_pass(action.kind) && action.version == weights_.newest()) optimizer_.await_gradients();
  const double begin = keep_timeline ? time_of(rank_, action) : 0;
  {
    const Ledger::Scope scope(rank_.ledger, {-1, action.microbatch});
    perform(action, flight);
  }
  if (flight.over()) flights_.erase(found);
  if (!is_message(action.kind) || is_send(action.kind)) note(action, begin);
  if (is_pass(action.kind) && last_use_.at(action.version) == index) weights_.drop(action.version);
}

void StageExecutor::perform(const Action& action, Flight& flight) {
  const RankGroups& groups = rank_.groups;
  switch (action.kind) {
    case ActionKind::forward:
      flight.recompute = recomputation();
      [[fallthrough]];
    case ActionKind::backward:
    case ActionKind::input_backward:
      prepare(action, flight);
      [[fallthrough]];
    case ActionKind::weight_backward:
      pass(action, flight);
      break;
    case ActionKind::receive_activation:
      receive(action, groups.activations, stage_before(rank_), flight.activation);
      break;
    case ActionKind::receive_gradient:
      receive(action, groups.gradients, stage_after(rank_), flight.gradient);
      break;
    case ActionKind::send_activation:
      send(groups.activations, stage_after(rank_), flight.output, activation_);
      // Without backward passes there is nothing that would let go of it.
      if (rank_.config.keep_outputs && !run_->scales.empty())
        keep(flight.output);
      else
        flight.output.release();
      break;
    case ActionKind::send_gradient:
      send(groups.gradients, stage_before(rank_), flight.input_gradient, gradient_);
      flight.input_gradient.release();
      break;
    case ActionKind::step:
      break;
  }
}

std::pair<size_t, size_t> StageExecutor::place_of(const Action& action) const {
  const Schedule& s = run_->schedule;
  const int batch = action.microbatch / s.microbatches;
  return {batch - s.first_batch,
          action.microbatch - batch * s.microbatches + rank_.replica() * s.microbatches};
}

bool StageExecutor::turns_after(size_t index) const {
  const Actions& actions = run_->schedule.actions.at(static_cast<size_t>(rank_.stage()));
  const std::span later = std::span(actions).subspan(index + 1);
  const auto next = std::ranges::find_if(later, [](const Action& a) { return is_pass(a.kind); });
  return next != later.end() && next->chunk == actions[index].chunk &&
         next->microbatch == actions[index].microbatch;
}

Recompute StageExecutor::recomputation() const {
  if (rank_.config.kept_microbatches == 0) return rank_.config.recompute;
  const auto whole = std::count_if(flights_.begin(), flights_.end(), [](const auto& flight) {
    return flight.second.recompute == Recompute::none && !flight.second.passed;
  });
  // The microbatch that asks is among them.
  return whole <= rank_.config.kept_microbatches ? Recompute::none : rank_.config.recompute;
}

/// Makes the rank compute this microbatch with its version of the weights.
void StageExecutor::prepare(const Action& action, const Flight& flight) {
  const auto [batch, microbatch] = place_of(action);
  const auto before = static_cast<uint64_t>(run_->schedule.first_batch) + batch;
  rank_.draw = static_cast<uint32_t>(
      before * static_cast<uint64_t>(rank_.config.batch_microbatches()) + microbatch);
  rank_.recompute = flight.recompute;
  if (action.version == weights_.newest()) optimizer_.finish(rank_);
  weights_.use(action.version);
}

/// By the model's code, or where it did the same before, without it.
void StageExecutor::pass(const Action& action, Flight& flight) {
  const bool forward = action.kind == ActionKind::forward;
  const bool weights = action.kind == ActionKind::weight_backward;
  Tensor none;
  Tensor& input = forward ? flight.activation.tensor : weights ? none : flight.gradient.tensor;
  Tensor& output = forward ? flight.output : weights ? none : flight.input_gradient;
  const PassMemo::Key key{action.kind, action.chunk, flight.recompute, flight.turns};
  const PassMemo::Pass* known = memo_ ? memo_->find(key) : nullptr;
  if (known != nullptr && known->repeatable() && (forward || flight.repeated)) {
    output = known->repeat(action.microbatch, std::move(input));
    flight.repeated = true;
  } else {
    if (flight.repeated) make_tensors(action, flight);
    if (memo_ && known == nullptr)
      memo_->note(key, action.microbatch, [&] { compute(action, flight); }, output);
    else
      compute(action, flight);
  }
  // What has been sent is kept until then.
  if (!forward) flight.output.release();
  flight.passed = !forward || run_->scales.empty();
  flight.owes = action.kind == ActionKind::input_backward;
}

void StageExecutor::compute(const Action& action, Flight& flight) {
  if (action.kind == ActionKind::forward) {
    forward(action, flight);
  } else if (action.kind == ActionKind::weight_backward) {
    for (const auto& compute : flight.deferred) compute();
    flight.deferred.clear();
  } else {
    backward(action, flight);
  }
}

/// Those that this pass needs from the microbatch's earlier ones, which the memo has made.
void StageExecutor::make_tensors(const Action& action, Flight& flight) {
  const Uncounted uncounted(rank_);
  const auto arrived = [&] {
    const Ledger::Scope scope(rank_.ledger, {});
    Tensor tensor = hidden_state(rank_);
    tensor.labelled(Kind::workspace);
    return tensor;
  };
  Flight again;
  again.turns = flight.turns;
  rank_.recompute = again.recompute = flight.recompute;
  const ModelPart& part = model_.part(action.chunk).part();
  if (!part.first) again.activation.tensor = arrived();
  Action before = action;
  before.kind = ActionKind::forward;
  compute(before, again);
  if (action.kind == ActionKind::weight_backward) {
    if (!part.last) again.gradient.tensor = arrived();
    before.kind = ActionKind::input_backward;
    compute(before, again);
  }
  flight.saved = std::move(again.saved);
  flight.deferred = std::move(again.deferred);
  flight.repeated = false;
}

void StageExecutor::forward(const Action& action, Flight& flight) {
  const Gpt& part = model_.part(action.chunk);
  const auto [batch, microbatch] = place_of(action);
  const MicroBatch& data = run_->batches.at(batch).at(microbatch);
  Gpt::Input input{.hidden = std::move(flight.activation.tensor),
                   .tokens = {},
                   .labels = {},
                   .scale = {},
                   .turns = flight.turns};
  if (!run_->scales.empty()) input.scale = run_->scales.at(batch);
  if (part.part().first) input.tokens = local_integers(rank_, data.tokens);
  if (part.part().last) input.labels = local_integers(rank_, data.labels);
  Tensor y = part.forward(rank_, input, flight.saved);
  if (part.part().last)
    rank_.run(Sum{y, totals_.view().sliced(0, static_cast<int64_t>(batch), 1)});
  else
    flight.output = std::move(y);
  if (run_->scales.empty()) flight.saved = {};
}

void StageExecutor::backward(const Action& action, Flight& flight) {
  // Whatever ends the pass: the rank is used again, and the flight is not.
  struct Reset {
    Rank& rank;
    ~Reset() {
      rank.deferred = nullptr;
      rank.on_gradients = nullptr;
    }
  } const reset{rank_};
  if (action.kind == ActionKind::input_backward) rank_.deferred = &flight.deferred;
  if (rank_.config.step_in_backward && !keep_gradients) {
    const OptimizerOptions* options =
        run_->optimizer.empty() ? nullptr : &run_->optimizer.at(place_of(action).first);
    rank_.on_gradients = [this, options](const ParameterList& parameters) {
      if (options == nullptr)
        Optimizer::drop_gradients(parameters);
      else
        optimizer_.step_in_backward(rank_, parameters, *options);
    };
  }
  if (rank_.deferred != nullptr && rank_.on_gradients)
    throw std::logic_error(
        "weights cannot step in a backward pass that leaves their gradients out");
  flight.input_gradient =
      model_.part(action.chunk)
          .backward(rank_, std::move(flight.gradient.tensor),
                    run_->scales.at(place_of(action).first), std::move(flight.saved));
}

void StageExecutor::receive(const Action& action, Communicator& from, int peer, Arrival& arrival) {
  arrival.action = action;
  arrival.tensor = hidden_state(rank_);
  arrival.pending = from.receive(arrival.tensor, peer);
}

/// For a message that a pass needs. In a timeline that is when it is received. From then on it is
/// an operand as any other.
void StageExecutor::wait(Arrival& arrival) {
  if (arrival.tensor.empty()) return;
  const double begin = keep_timeline ? time_of(rank_) : 0;
  arrival.pending.wait();
  arrival.tensor.labelled(Kind::workspace);
  note(arrival.action, begin);
}

/// What has ended now.
void StageExecutor::note(const Action& action, double begin) {
  if (keep_timeline) result_.timeline.push_back({action, begin, time_of(rank_, action)});
}

void StageExecutor::note_versions() {
  if (!keep_timeline) return;
  std::vector<VersionCount>& noted = result_.versions;
  if (noted.empty() || noted.back().alive != weights_.alive())
    noted.push_back({time_of(rank_), weights_.alive()});
}

/// One message to a side is on its way at a time: what was sent before is released first.
void StageExecutor::send(Communicator& to, int peer, const Tensor& tensor,
                         std::optional<Departure>& before) {
  if (before) before->pending.wait();
  before.emplace(Departure{tensor.labelled(Kind::communication), to.send(tensor, peer)});
}

void StageExecutor::step(const Action& action, size_t index) {
  optimizer_.await_gradients();
  const double begin = keep_timeline ? time_of(rank_) : 0;
  const auto batch = static_cast<size_t>(action.version - 1 - run_->schedule.first_batch);
  const int before = weights_.newest();
  const auto use = last_use_.find(before);
  // 2BW's next batch, of another run perhaps, is computed with it.
  const bool needed = run_->schedule.kind == ScheduleKind::two_buffered ||
                      (use != last_use_.end() && use->second > index);
  optimizer_.finish(rank_);  // what it steps from
  const auto [from, to] = weights_.advance(rank_, needed);
  result_.gradient_norms.push_back(optimizer_.step(rank_, run_->optimizer.at(batch), {from, to}));
  optimizer_.clear_gradients(rank_);
  result_.step_ends.push_back(time_of(rank_));
  note(action, begin);
}

}  // namespace frugal
