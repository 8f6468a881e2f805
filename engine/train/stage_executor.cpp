#include "engine/train/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

#include "engine/data/single_batch.h"
#include "engine/model/parallel.h"
#include "engine/schedule/text.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

using Progress = Flight::Progress;

int64_t key_of(const Action& action) { return int64_t{action.microbatch} << 32 | action.chunk; }

/// The place that an action's allocations are charged to.
Place memory_of(const Action& action) { return {-1, action.microbatch}; }

Tensor hidden_state(Rank& rank, Place place) {
  const RunConfig& c = rank.config;
  return rank.allocate(c.type, {parallel::local_sequence(rank), c.micro_batch, c.model.hidden},
                       Kind::communication, place);
}

std::string text_of(const Rank& rank, const Schedule& schedule, const Action& action) {
  return fmt::format("stage {}, {}", rank.stage(), to_text(action, schedule.chunks));
}

/// Names the stage and the action in the errors of `make`.
template <class Make>
void named(const Rank& rank, const Schedule& schedule, const Action& action, const Make& make) {
  try {
    make();
  } catch (const DeadlinePassed& e) {
    throw DeadlinePassed(text_of(rank, schedule, action) + ": " + e.what());
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(text_of(rank, schedule, action) + ": " + e.what(), e.requested, e.in_use,
                      e.capacity);
  }
}

}  // namespace

double StageTimeline::now() const {
  if (!rank_.device.backed()) return rank_.device.record(Stream::compute).time;
  rank_.device.synchronize();
  return rank_.device.now();
}

/// A virtual device's messages go on beside the passes, and one sets out when those before it have
/// arrived.
double StageTimeline::time_of(const Action& action) const {
  const double passed = now();
  if (rank_.device.backed() || !is_send(action.kind)) return passed;
  const StreamSpec& stream =
      action.kind == ActionKind::send_activation ? streams::activations : streams::gradients;
  return std::max(passed, rank_.device.record(rank_.device.stream(stream)).time);
}

Communicator& StageMessages::group_of(ActionKind kind) const {
  const bool forward =
      kind == ActionKind::send_activation || kind == ActionKind::receive_activation;
  return forward ? rank_.groups.activations : rank_.groups.gradients;
}

int StageMessages::peer(const Action& message) const {
  return peer_of(schedule_.layout(), rank_.stage(), message)->stage;
}

void StageMessages::receive(const Action& action, Arrival& arrival) {
  arrival.action = action;
  arrival.tensor = hidden_state(rank_, memory_of(action));
  arrival.pending = group_of(action.kind).receive(arrival.tensor, peer(action));
}

void StageMessages::receive_stale(int messages) {
  for (int i = 0; i < messages; ++i) {
    const Tensor stale = hidden_state(rank_, {});
    rank_.groups.activations.receive(stale, rank_.stage() - 1).wait();
  }
}

void StageMessages::send(const Action& action, const Tensor& tensor) {
  const int receiver = peer(action);
  Departure& last = departures_[{action.kind, receiver}];
  last.pending.wait();
  tensor.labelled(Kind::communication, memory_of(action));
  last = {tensor, group_of(action.kind).send(tensor, receiver)};
}

void StageMessages::await_sent() {
  for (auto& [side, sent] : departures_) sent.pending.wait();
  departures_.clear();
}

StagePasses::StagePasses(Rank& rank, StageModel& model, WeightVersions& weights,
                         Optimizer& optimizer, const ScheduleRun& run)
    : rank_(rank),
      model_(model),
      weights_(weights),
      optimizer_(optimizer),
      run_(run),
      overwritten_(static_cast<size_t>(run.schedule.chunks)) {
  if (run.memorizes && PassMemo::possible(rank) && !run.on_logits) memo_.emplace(rank);
  if (memo_ && rank.config.overwrite_gradients)
    for (int chunk = 0; chunk < run.schedule.chunks; ++chunk)
      overwritten_[static_cast<size_t>(chunk)] = model.part(chunk).trained();
  totals_ = rank.allocate(DType::f64, {run.schedule.batches}, Kind::statistics);
  rank.run(Fill{totals_, 0});
}

std::vector<double> StagePasses::losses() {
  std::vector<double> losses(static_cast<size_t>(run_.schedule.batches),
                             std::numeric_limits<double>::quiet_NaN());
  if (rank_.device.backed()) rank_.device.copy_to_host(losses.data(), totals_);
  return losses;
}

Flight& StagePasses::flight(const Action& action) {
  Flight& flight = flights_[key_of(action)];
  flight.chunk = action.chunk;
  flight.microbatch = action.microbatch;
  return flight;
}

void StagePasses::end(const Action& action) {
  if (flight(action).over()) flights_.erase(key_of(action));
}

void StagePasses::await_arrivals() {
  for (auto& [key, flight] : flights_) {
    flight.activation.pending.wait();
    flight.gradient.pending.wait();
  }
}

std::pair<size_t, size_t> StagePasses::place_of(const Action& action) const {
  const Schedule& s = run_.schedule;
  const int batch = action.microbatch / s.microbatches;
  return {batch - s.first_batch,
          action.microbatch - batch * s.microbatches + rank_.replica() * s.microbatches};
}

Recompute StagePasses::recomputation() const {
  if (rank_.config.kept_microbatches == 0) return rank_.config.recompute;
  const auto whole = std::ranges::count_if(flights_, [](const auto& flight) {
    return flight.second.recompute == Recompute::none && flight.second.progress < Progress::pending;
  });
  // The microbatch that asks is among them.
  return whole <= rank_.config.kept_microbatches ? Recompute::none : rank_.config.recompute;
}

void StagePasses::prepare(const std::vector<Making>& passes) {
  for (const Making& making : passes)
    if (making.forward()) making.flight.recompute = recomputation();
  const Action& first = passes.front().action;
  if (first.kind == ActionKind::weight_backward) return;
  if (first.version == weights_.newest()) optimizer_.finish({rank_, memory_of(first)});
  weights_.use(rank_, first.version);
}

Pass StagePasses::pass_of(const Making& making) const {
  const auto [batch, microbatch] = place_of(making.action);
  const auto before = static_cast<uint64_t>(run_.schedule.first_batch) + batch;
  Pass pass(rank_, memory_of(making.action));
  pass.beside = making.beside;
  pass.draw = static_cast<uint32_t>(
      before * static_cast<uint64_t>(rank_.config.batch_microbatches()) + microbatch);
  pass.training = run_.training;
  pass.recompute = making.flight.recompute;
  return pass;
}

std::optional<GatheredWeights> StagePasses::gathered_for(const Action& action) const {
  if (!rank_.config.shards(Shard::weights)) return std::nullopt;
  using Use = GatheredWeights::Use;
  const Use forward = run_.scales.empty() ? Use::alone : Use::before_backward;
  return std::make_optional<GatheredWeights>(
      weights_.block(action.version), rank_.config.program.weights,
      action.kind == ActionKind::forward ? forward : Use::backward, rank_.config.model.layers);
}

void StagePasses::drop_gathered() {
  const WeightChoices& choices = rank_.config.program.weights;
  if (!choices.outer_stay && !choices.layers_stay && !choices.last_layer_stays) return;
  for (int chunk = 0; chunk < run_.schedule.chunks; ++chunk)
    for (const Parameter* p : model_.part(chunk).parameters())
      if (p->unit) p->unit->weights.release();
}

PassMemo::Ends StagePasses::ends_of(const Making& making) {
  Flight& flight = making.flight;
  if (making.forward()) return {&flight.activation.tensor, &flight.output, flight.microbatch};
  if (making.action.kind == ActionKind::weight_backward)
    return {nullptr, nullptr, flight.microbatch};
  return {&flight.gradient.tensor, &flight.input_gradient, flight.microbatch};
}

void StagePasses::make(const std::vector<const Action*>& actions) {
  std::vector<Making> passes;
  for (const Action* action : actions) passes.push_back({*action, flight(*action)});
  named(rank_, run_.schedule, *actions.front(), [&] { prepare(passes); });
  PassMemo::Key key;
  std::vector<PassMemo::Ends> ends;
  ParameterList parameters;  // of those chunks, each as fresh as the passes leave it
  bool noted = memo_.has_value(), without_tensors = true;
  for (const Making& making : passes) {
    rank_.device.begin_pass(making.forward());
    const Flight& flight = making.flight;
    const ParameterList& own = overwritten_.at(static_cast<size_t>(making.action.chunk));
    parameters.insert(parameters.end(), own.begin(), own.end());
    key.push_back(
        {making.action.kind, making.action.chunk, flight.recompute, flight.turns, fresh_of(own)});
    ends.push_back(ends_of(making));
    // A sum that a pass begins and the step waits for is no part of what is repeated.
    noted &= !(flight.last && rank_.groups.copies.size() > 1) && !begins_sums(flight);
    without_tensors &= making.forward() || flight.only_counted;
  }
  const HeldPerPart before = rank_.ledger.held_per_part();
  const PassMemo::Noted* known = noted ? memo_->find(key) : nullptr;
  if (known != nullptr && known->repeatable() && without_tensors) {
    known->repeat(ends, parameters);
    for (const Making& making : passes) making.flight.only_counted = true;
  } else {
    for (const Making& making : passes)
      if (making.flight.only_counted) make_tensors(making.action, making.flight);
    if (noted && known == nullptr)
      memo_->note(
          key, [&] { compute_all(passes); }, ends, parameters);
    else
      compute_all(passes);
  }
  // Passes made together are never the first that keep something: one before them was noted.
  if (passes.size() == 1 && passes.front().forward() && !run_.scales.empty())
    rank_.ledger.note_kept(before);
  for (const Making& making : passes) leave(making);
  for (size_t i = 0; i < passes.size(); ++i) rank_.device.end_pass();
}

void StagePasses::leave(const Making& making) {
  const ActionKind kind = making.action.kind;
  if (!making.forward()) making.flight.output.release();  // kept until then by a program
  making.flight.progress = kind == ActionKind::input_backward         ? Progress::pending
                           : making.forward() && !run_.scales.empty() ? Progress::forward
                                                                      : Progress::over;
  forward_locally(making.action, making.flight);
}

void StagePasses::compute_all(const std::vector<Making>& passes) {
  const auto compute_named = [this](const Making& making, Interleaving* beside) {
    named(rank_, run_.schedule, making.action, [&] {
      compute({making.action, making.flight, beside});
    });
  };
  if (passes.size() == 1) return compute_named(passes.front(), nullptr);
  Interleaving::run([&](Interleaving& other) { compute_named(passes.front(), &other); },
                    [&](Interleaving& other) { compute_named(passes.back(), &other); });
}

void StagePasses::forward_locally(const Action& action, Flight& flight) {
  const bool forward = action.kind == ActionKind::forward;
  Tensor& made = forward ? flight.output : flight.input_gradient;
  if (made.empty()) return;
  const auto next = run_.schedule.layout().neighbour({rank_.stage(), action.chunk}, forward);
  if (!next || next->stage != rank_.stage()) return;
  Flight& there = this->flight({.chunk = next->chunk, .microbatch = action.microbatch});
  Arrival& arrival = forward ? there.activation : there.gradient;
  arrival.action = action;
  arrival.tensor = made;
  // Outputs stay only where sent ones do.
  if (!forward || !rank_.config.keeps_outputs() || run_.scales.empty()) made.release();
  arrival.tensor.labelled(Kind::communication, memory_of(action));
}

void StagePasses::compute(const Making& making) {
  if (making.forward()) {
    forward(making);
  } else if (making.action.kind == ActionKind::weight_backward) {
    weight_backward(making);
  } else {
    backward(making);
  }
}

void StagePasses::make_tensors(const Action& action, Flight& flight) {
  const Uncounted uncounted(rank_);
  const ParameterList& parameters = overwritten_.at(static_cast<size_t>(action.chunk));
  const std::vector<bool> fresh = fresh_of(parameters);
  const auto arrived = [&] {
    Tensor tensor = hidden_state(rank_, {});
    tensor.labelled(Kind::workspace, {});
    return tensor;
  };
  Flight again;
  again.turns = flight.turns;
  again.recompute = flight.recompute;
  const ModelPart& part = model_.part(action.chunk).part();
  if (!part.first) again.activation.tensor = arrived();
  Action before = action;
  before.kind = ActionKind::forward;
  compute({before, again});
  if (action.kind == ActionKind::weight_backward) {
    if (!part.last) again.gradient.tensor = arrived();
    before.kind = ActionKind::input_backward;
    compute({before, again});
  }
  restore_fresh(parameters, fresh);
  flight.saved = std::move(again.saved);
  flight.deferred = std::move(again.deferred);
  flight.only_counted = false;
}

void StagePasses::drop_flights() {
  for (auto& [key, flight] : flights_) {
    if (!flight.only_counted || flight.progress == Progress::over) continue;
    const bool pending = flight.progress == Progress::pending;
    make_tensors({pending ? ActionKind::weight_backward : ActionKind::backward, flight.chunk,
                  flight.microbatch, weights_.newest()},
                 flight);
  }
  flights_.clear();
  drop_gathered();
}

void StagePasses::forward(const Making& making) {
  const auto& [action, flight, beside] = making;
  const Gpt& part = model_.part(action.chunk);
  Pass pass = pass_of(making);
  std::optional<GatheredWeights> gathered = gathered_for(action);
  if (gathered) pass.weights = &*gathered;
  const auto [batch, microbatch] = place_of(action);
  const MicroBatch& data = run_.batches.at(batch).at(microbatch);
  Gpt::Input input{.hidden = std::move(flight.activation.tensor),
                   .tokens = {},
                   .target = {},
                   .turns = flight.turns};
  if (!run_.scales.empty()) input.target.scale = run_.scales.at(batch);
  if (run_.on_logits) input.target.on_logits = &run_.on_logits;
  if (part.part().first) input.tokens = local_integers(pass, data.tokens);
  if (part.part().last) input.target.labels = local_integers(pass, data.labels);
  Tensor y = part.forward(pass, input, flight.saved);
  if (part.part().last)
    pass.run(Sum{y, totals_.view().sliced(0, static_cast<int64_t>(batch), 1)});
  else
    flight.output = std::move(y);
  if (run_.scales.empty()) flight.saved = {};
}

bool StagePasses::begins_sums(const Flight& flight) const {
  return rank_.config.overlaps_sums() && flight.last && !run_.optimizer.empty() &&
         !run_.keep_gradients;
}

void StagePasses::weight_backward(const Making& making) {
  const int chunk = making.action.chunk;
  GradientBuckets& buckets = optimizer_.reduction().buckets();
  Pass pass = pass_of(making);
  const OnGradients complete = [&](const Pass& at, const ParameterList& parameters) {
    buckets.complete(at, chunk, parameters);
  };
  if (begins_sums(making.flight)) pass.on_gradients = &complete;
  for (const auto& compute : making.flight.deferred) compute(pass);
  making.flight.deferred.clear();
  if (begins_sums(making.flight)) buckets.complete(pass, chunk);
}

void StagePasses::backward(const Making& making) {
  const auto& [action, flight, beside] = making;
  const RunConfig& c = rank_.config;
  const size_t batch = place_of(action).first;
  GradientBuckets& buckets = optimizer_.reduction().buckets();
  Pass pass = pass_of(making);
  std::optional<GatheredWeights> gathered = gathered_for(action);
  if (gathered) pass.weights = &*gathered;
  if (action.kind == ActionKind::input_backward) pass.deferred = &flight.deferred;
  const OptimizerOptions* options = run_.optimizer.empty() ? nullptr : &run_.optimizer.at(batch);
  BackwardReduction reduction(optimizer_, flight.last, options, weights_.block(weights_.newest()));
  const OnGradients on_gradients = [&](const Pass& at, const ParameterList& parameters) {
    if (begins_sums(making.flight)) {
      buckets.complete(at, making.action.chunk, parameters);
    } else if (c.reduces_in_backward()) {
      reduction.add(at, parameters);
    } else if (options != nullptr) {
      optimizer_.step_in_backward(at, parameters, *options);
    } else {
      for (Parameter* p : parameters) p->gradient.release();
    }
  };
  if (begins_sums(flight) ||
      ((c.step_in_backward || c.reduces_in_backward()) && !run_.keep_gradients))
    pass.on_gradients = &on_gradients;
  if (pass.deferred != nullptr && pass.on_gradients != nullptr)
    throw std::logic_error(
        "weights cannot step in a backward pass that leaves their gradients out");
  flight.input_gradient = model_.part(action.chunk)
                              .backward(pass, std::move(flight.gradient.tensor),
                                        run_.scales.at(batch), std::move(flight.saved));
  reduction.finish(pass);
  if (begins_sums(flight)) buckets.complete(pass, action.chunk);
}

StageExecutor::StageExecutor(Rank& rank, StageModel& model, WeightVersions& weights,
                             Optimizer& optimizer, const ScheduleRun& run)
    : rank_(rank),
      model_(model),
      weights_(weights),
      optimizer_(optimizer),
      run_(run),
      actions_(run.schedule.actions.at(static_cast<size_t>(rank.stage()))),
      timeline_(rank, run.keep_timeline),
      messages_(rank, run.schedule),
      passes_(rank, model, weights, optimizer, run),
      post_validation_(rank, optimizer.update()) {
  for (size_t i = 0; i < actions_.size(); ++i)
    if (is_pass(actions_[i].kind)) last_use_[actions_[i].version] = i;
  if (rank.config.validates_later() && !run.optimizer.empty())
    early_forwards_ = EarlyForwards(run.schedule);
}

StageResult StageExecutor::execute() {
  timeline_.note_versions(weights_.alive());
  for (size_t i = 0; i < actions_.size(); ++i) {
    named(rank_, run_.schedule, actions_[i], [&] { i = validate_before(i); });
    const Action& action = actions_[i];
    if (is_pass(action.kind))
      execute_passes(i);
    else
      named(rank_, run_.schedule, action,
            [&] { action.kind == ActionKind::step ? step(action, i) : execute_message(action); });
    if (action.beside_next) ++i;
    timeline_.note_versions(weights_.alive());
  }
  optimizer_.finish(rank_);
  messages_.await_sent();
  result_.losses = passes_.losses();
  result_.timeline = std::move(timeline_.spans);
  result_.versions = std::move(timeline_.versions);
  return std::move(result_);
}

/// Starts both of two passes when both have their inputs. Neither depends on the other: the
/// schedule guarantees it.
void StageExecutor::execute_passes(size_t index) {
  const size_t count = actions_[index].beside_next ? 2 : 1;
  std::vector<const Action*> passes;
  for (size_t i = index; i < index + count; ++i) {
    passes.push_back(&actions_[i]);
    named(rank_, run_.schedule, actions_[i], [&] { prepare(actions_[i], i); });
  }
  const Action& first = *passes.front();
  double begin = 0;
  named(rank_, run_.schedule, first, [&] {
    exchange();
    if (first.version == weights_.newest()) optimizer_.await_gradients();
    begin = timeline_.begin(first);
  });
  passes_.make(passes);
  named(rank_, run_.schedule, first, [&] {
    for (size_t i = index; i < index + count; ++i) {
      passes_.end(actions_[i]);
      if (last_use_.at(actions_[i].version) == i) weights_.drop(actions_[i].version);
    }
    for (const Action* pass : passes) timeline_.note(*pass, begin);
  });
}

void StageExecutor::prepare(const Action& pass, size_t index) {
  Flight& flight = passes_.flight(pass);
  const ModelPart& part = model_.part(pass.chunk).part();
  if (pass.kind == ActionKind::forward) {
    flight.turns = turns_after(index);
    if (!part.first) wait(pass, flight.activation, "activation");
  }
  if (completes_gradient(pass.kind)) flight.last = last_after(index);
  if ((pass.kind == ActionKind::backward || pass.kind == ActionKind::input_backward) && !part.last)
    wait(pass, flight.gradient, "gradient");
}

void StageExecutor::execute_message(const Action& action) {
  Flight& flight = passes_.flight(action);
  const double begin = timeline_.begin(action);
  switch (action.kind) {
    case ActionKind::receive_activation:
      messages_.receive(action, flight.activation);
      break;
    case ActionKind::receive_gradient:
      messages_.receive(action, flight.gradient);
      break;
    case ActionKind::send_activation:
      messages_.send(action, flight.output);
      // Nothing would release a kept output without backward passes.
      if (rank_.config.keeps_outputs() && !run_.scales.empty())
        flight.output.labelled(Kind::activation, memory_of(action));
      else
        flight.output.release();
      break;
    default:
      messages_.send(action, flight.input_gradient);
      flight.input_gradient.release();
  }
  passes_.end(action);
  if (is_send(action.kind)) timeline_.note(action, begin);
}

bool StageExecutor::turns_after(size_t index) const {
  const std::span later = std::span(actions_).subspan(index + 1);
  const auto next = std::ranges::find_if(later, [](const Action& a) { return is_pass(a.kind); });
  return next != later.end() && next->chunk == actions_[index].chunk &&
         next->microbatch == actions_[index].microbatch;
}

bool StageExecutor::last_after(size_t index) const {
  const Action& pass = actions_[index];
  return std::ranges::none_of(std::span(actions_).subspan(index + 1), [&](const Action& later) {
    return completes_gradient(later.kind) && later.chunk == pass.chunk &&
           run_.schedule.batch_of(later.microbatch) == run_.schedule.batch_of(pass.microbatch);
  });
}

/// Waits for a message that a pass needs. In a timeline it is received then. From then on it is an
/// operand like any other. A tensor of another chunk of the stage is there.
void StageExecutor::wait(const Action& action, Arrival& arrival, const char* what) {
  if (arrival.tensor.empty())
    throw std::logic_error(fmt::format("{}: its {} has not been received",
                                       text_of(rank_, run_.schedule, action), what));
  const double begin = timeline_.begin();
  arrival.pending.wait();
  arrival.tensor.labelled(Kind::workspace, {});
  if (is_message(arrival.action.kind)) timeline_.note(arrival.action, begin);
}

void StageExecutor::exchange() {
  if (!rank_.config.exchanges_messages() || rank_.device.backed()) return;
  passes_.await_arrivals();
  messages_.await_sent();
}

void StageExecutor::step(const Action& action, size_t index) {
  if (rank_.config.validates_later()) return begin_step(action, index);
  exchange();
  optimizer_.await_gradients();
  const double begin = timeline_.begin();
  const auto use = last_use_.find(weights_.newest());
  // Late gradients: the next batch, perhaps of another run, is computed with this version.
  const bool needed =
      run_.schedule.kind.delay > 0 || (use != last_use_.end() && use->second > index);
  optimizer_.finish(rank_);  // what it steps from
  const WeightBlocks blocks = weights_.advance(rank_, needed);
  const OptimizerOptions& options = run_.optimizer.at(static_cast<size_t>(batch_ended_by(action)));
  result_.gradient_norms.push_back(optimizer_.step(options, blocks));
  weights_.announce_step(rank_);
  optimizer_.clear_gradients();
  result_.step_ends.push_back(timeline_.now());
  timeline_.note(action, begin);
}

void StageExecutor::begin_step(const Action& action, size_t index) {
  const double begin = timeline_.begin();
  const int batch = batch_ended_by(action);
  const size_t early = early_forwards_.actions(rank_.stage(), batch);
  const OptimizerOptions& options = run_.optimizer.at(static_cast<size_t>(batch));
  const WeightBlocks blocks = weights_.advance(rank_, !optimizer_.update().has_masters());
  optimizer_.sum_gradients(options);
  unvalidated_ = {action, index, index + 1 + early, early_forwards_.passes(rank_.stage(), batch)};
  if (!post_validation_.begin(options, blocks, early > 0)) {
    unvalidated_->early = 0;
    validate_step();
  }
  result_.step_ends.push_back(timeline_.now());
  timeline_.note(action, begin);
}

size_t StageExecutor::validate_before(size_t index) {
  if (!unvalidated_ || index != unvalidated_->end) return index;
  const Unvalidated here = *unvalidated_;
  const double begin = timeline_.begin();
  const bool stood = validate_step();
  timeline_.note(here.step, begin);
  return stood ? index : here.index + 1;
}

bool StageExecutor::validate_step() {
  const Unvalidated here = *unvalidated_;
  unvalidated_.reset();
  const PostValidation::Validated validated = post_validation_.validate();
  weights_.drop(here.step.version - 1);
  result_.gradient_norms.push_back(validated.norm);
  optimizer_.clear_gradients();
  if (validated.stood) return true;
  passes_.drop_flights();
  // Messages that the stage before has sent of forward passes that are made again.
  if (validated.wrong_before)
    messages_.receive_stale(early_forwards_.passes(rank_.stage() - 1, batch_ended_by(here.step)) -
                            here.early);
  return false;
}

}  // namespace frugal::engine
