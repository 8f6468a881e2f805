#include "engine/train/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

#include "engine/schedule/text.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

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
  if (PassMemo::possible(rank_) && !run.on_logits) memo_.emplace(rank_);
  overwritten_.assign(static_cast<size_t>(run.schedule.chunks), {});
  if (memo_ && rank_.config.overwrite_gradients)
    for (int chunk = 0; chunk < run.schedule.chunks; ++chunk)
      overwritten_[static_cast<size_t>(chunk)] = model_.part(chunk).trained();
  struct End {  // by an error too
    StageExecutor& executor;
    ~End() { executor.drop_flights(); }
  } const end{*this};
  const Actions& actions = run.schedule.actions.at(static_cast<size_t>(rank_.stage()));
  last_use_.clear();
  for (size_t i = 0; i < actions.size(); ++i)
    if (is_pass(actions[i].kind)) last_use_[actions[i].version] = i;
  totals_ = rank_.allocate(DType::f64, {run.schedule.batches}, Kind::statistics);
  rank_.run(Fill{totals_, 0});
  note_versions();
  unvalidated_.reset();
  if (rank_.config.validates_later() && !run.optimizer.empty())
    early_forwards_ = EarlyForwards(run.schedule);
  for (size_t i = 0; i < actions.size(); ++i) {
    named(actions[i], [&] { i = validate_before(i); });
    if (actions[i].beside_next) {
      execute_together(actions[i], actions[i + 1], i);
      ++i;
    } else {
      named(actions[i], [&] { execute(actions[i], i); });
    }
    note_versions();
  }
  optimizer_.finish(rank_);
  await_departures();
  result_.losses.assign(static_cast<size_t>(run.schedule.batches),
                        std::numeric_limits<double>::quiet_NaN());
  if (rank_.device.backed()) rank_.device.copy_to_host(result_.losses.data(), totals_);
  totals_.release();
  return std::move(result_);
}

std::string StageExecutor::text(const Action& action) const {
  return fmt::format("stage {}, {}", rank_.stage(), to_text(action, run_->schedule.chunks));
}

void StageExecutor::named(const Action& action, const std::function<void()>& make) const {
  try {
    make();
  } catch (const DeadlinePassed& e) {
    throw DeadlinePassed(text(action) + ": " + e.what());
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(text(action) + ": " + e.what(), e.requested, e.in_use, e.capacity);
  }
}

void StageExecutor::execute(const Action& action, size_t index) {
  if (action.kind == ActionKind::step) {
    step(action, index);
    return;
  }
  Flight& flight = ready_for(action, index);
  if (is_pass(action.kind)) exchange();
  if (is_pass(action.kind) && action.version == weights_.newest()) optimizer_.await_gradients();
  const double begin = keep_timeline ? time_of(rank_, action) : 0;
  perform(action, flight);
  end(action, index);
  if (!is_message(action.kind) || is_send(action.kind)) note(action, begin);
}

/// Both begin when what both need is there; the schedule has neither need what the other makes.
void StageExecutor::execute_together(const Action& first, const Action& second, size_t index) {
  std::vector<Making> passes;
  for (const Action* pass : {&first, &second})
    named(*pass, [&] { passes.push_back({*pass, ready_for(*pass, index + passes.size())}); });
  double begin = 0;
  named(first, [&] {
    exchange();
    if (first.version == weights_.newest()) optimizer_.await_gradients();
    begin = keep_timeline ? time_of(rank_, first) : 0;
    passes.front().flight.recompute = recomputation();
    use_weights(first);
  });
  make_passes(passes);
  end(first, index);
  end(second, index + 1);
  note(first, begin);
  note(second, begin);
}

StageExecutor::Flight& StageExecutor::ready_for(const Action& action, size_t index) {
  Flight& flight = flights_[flight_of(action)];
  flight.chunk = action.chunk;
  flight.microbatch = action.microbatch;
  // A pass begins when what it needs has come.
  const ModelPart& part = model_.part(action.chunk).part();
  if (action.kind == ActionKind::forward) {
    flight.turns = turns_after(index);
    if (!part.first) wait(action, flight.activation, "activation");
  }
  if (completes_gradient(action.kind)) flight.last = last_after(index);
  if ((action.kind == ActionKind::backward || action.kind == ActionKind::input_backward) &&
      !part.last)
    wait(action, flight.gradient, "gradient");
  return flight;
}

void StageExecutor::end(const Action& action, size_t index) {
  const auto flight = flights_.find(flight_of(action));
  if (flight->second.over()) flights_.erase(flight);
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
      use_weights(action);
      [[fallthrough]];
    case ActionKind::weight_backward:
      make_passes({{action, flight}});
      break;
    case ActionKind::receive_activation:
      receive(action, groups.activations, flight.activation);
      break;
    case ActionKind::receive_gradient:
      receive(action, groups.gradients, flight.gradient);
      break;
    case ActionKind::send_activation:
      send(action, groups.activations, flight.output);
      // Without backward passes there is nothing that would let go of it.
      if (rank_.config.keeps_outputs() && !run_->scales.empty())
        flight.output.labelled(Kind::activation, memory_of(action));
      else
        flight.output.release();
      break;
    case ActionKind::send_gradient:
      send(action, groups.gradients, flight.input_gradient);
      flight.input_gradient.release();
      break;
    case ActionKind::step:
      break;
  }
}

bool StageExecutor::turns_after(size_t index) const {
  const Actions& actions = run_->schedule.actions.at(static_cast<size_t>(rank_.stage()));
  const std::span later = std::span(actions).subspan(index + 1);
  const auto next = std::ranges::find_if(later, [](const Action& a) { return is_pass(a.kind); });
  return next != later.end() && next->chunk == actions[index].chunk &&
         next->microbatch == actions[index].microbatch;
}

bool StageExecutor::last_after(size_t index) const {
  const Schedule& schedule = run_->schedule;
  const Actions& actions = schedule.actions.at(static_cast<size_t>(rank_.stage()));
  const Action& pass = actions[index];
  return std::none_of(
      actions.begin() + static_cast<ptrdiff_t>(index) + 1, actions.end(), [&](const Action& later) {
        return completes_gradient(later.kind) && later.chunk == pass.chunk &&
               schedule.batch_of(later.microbatch) == schedule.batch_of(pass.microbatch);
      });
}

int StageExecutor::peer(const Action& message) const {
  return peer_of(run_->schedule.layout(), rank_.stage(), message)->stage;
}

void StageExecutor::receive(const Action& action, Communicator& from, Arrival& arrival) {
  arrival.action = action;
  arrival.tensor = hidden_state(memory_of(action));
  arrival.pending = from.receive(arrival.tensor, peer(action));
}

/// For a message that a pass needs. In a timeline that is when it is received. From then on it is
/// an operand as any other. What another chunk of the stage has made is there.
void StageExecutor::wait(const Action& action, Arrival& arrival, const char* what) {
  if (arrival.tensor.empty())
    throw std::logic_error(fmt::format("{}: its {} has not been received", text(action), what));
  const double begin = keep_timeline ? time_of(rank_) : 0;
  arrival.pending.wait();
  arrival.tensor.labelled(Kind::workspace, {});
  if (is_message(arrival.action.kind)) note(arrival.action, begin);
}

double StageExecutor::now() { return time_of(rank_); }

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
void StageExecutor::send(const Action& action, Communicator& to, const Tensor& tensor) {
  const int receiver = peer(action);
  const auto before = std::ranges::find_if(departures_, [&](const Departure& sent) {
    return sent.kind == action.kind && sent.peer == receiver;
  });
  if (before != departures_.end()) before->pending.wait();
  tensor.labelled(Kind::communication, memory_of(action));
  Departure sent{action.kind, receiver, tensor, to.send(tensor, receiver)};
  if (before != departures_.end())
    *before = std::move(sent);
  else
    departures_.push_back(std::move(sent));
}

void StageExecutor::exchange() {
  if (!rank_.config.exchanges_messages() || rank_.device.backed()) return;
  for (auto& [key, flight] : flights_) {
    flight.activation.pending.wait();
    flight.gradient.pending.wait();
  }
  await_departures();
}

void StageExecutor::await_departures() {
  for (Departure& sent : departures_) sent.pending.wait();
  departures_.clear();
}

void StageExecutor::step(const Action& action, size_t index) {
  if (rank_.config.validates_later()) return begin_step(action, index);
  exchange();
  optimizer_.await_gradients();
  const double begin = keep_timeline ? time_of(rank_) : 0;
  const auto batch = static_cast<size_t>(action.version - 1 - run_->schedule.first_batch);
  const int before = weights_.newest();
  const auto use = last_use_.find(before);
  // Where gradients come late, the next batch, of another run perhaps, is computed with it.
  const bool needed =
      run_->schedule.kind.delay > 0 || (use != last_use_.end() && use->second > index);
  optimizer_.finish(rank_);  // what it steps from
  const auto [from, to] = weights_.advance(rank_, needed);
  result_.gradient_norms.push_back(optimizer_.step(run_->optimizer.at(batch), {from, to}));
  weights_.copy_all(rank_);
  optimizer_.clear_gradients();
  result_.step_ends.push_back(time_of(rank_));
  note(action, begin);
}

}  // namespace frugal::engine
