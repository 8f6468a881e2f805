#include <algorithm>
#include <stdexcept>

#include "engine/checkpoint/host_tensor.h"
#include "engine/comm/parallel.h"
#include "engine/train/stage_executor.h"

namespace frugal::engine {

Tensor StageExecutor::hidden_state(Place place) {
  const RunConfig& c = rank_.config;
  return rank_.allocate(c.type, {parallel::local_sequence(rank_), c.micro_batch, c.model.hidden},
                        Kind::communication, place);
}

std::pair<size_t, size_t> StageExecutor::place_of(const Action& action) const {
  const Schedule& s = run_->schedule;
  const int batch = action.microbatch / s.microbatches;
  return {batch - s.first_batch,
          action.microbatch - batch * s.microbatches + rank_.replica() * s.microbatches};
}

Recompute StageExecutor::recomputation() const {
  if (rank_.config.kept_microbatches == 0) return rank_.config.recompute;
  const auto whole = std::count_if(flights_.begin(), flights_.end(), [](const auto& flight) {
    return flight.second.recompute == Recompute::none && flight.second.progress < Progress::owing;
  });
  // The microbatch that asks is among them.
  return whole <= rank_.config.kept_microbatches ? Recompute::none : rank_.config.recompute;
}

void StageExecutor::use_weights(const Action& action) {
  if (action.version == weights_.newest()) optimizer_.finish({rank_, memory_of(action)});
  weights_.use(rank_, action.version);
}

Pass StageExecutor::pass_of(const Making& making) const {
  const auto [batch, microbatch] = place_of(making.action);
  const auto before = static_cast<uint64_t>(run_->schedule.first_batch) + batch;
  Pass pass(rank_, memory_of(making.action));
  pass.beside = making.beside;
  pass.draw = static_cast<uint32_t>(
      before * static_cast<uint64_t>(rank_.config.batch_microbatches()) + microbatch);
  pass.training = run_->training;
  pass.recompute = making.flight.recompute;
  if (run_->on_logits) pass.on_logits = &run_->on_logits;
  return pass;
}

std::optional<GatheredWeights> StageExecutor::gathered_for(const Action& action) const {
  if (!rank_.config.shards(Shard::weights)) return std::nullopt;
  const bool last = action.kind != ActionKind::forward || run_->scales.empty();
  return std::make_optional<GatheredWeights>(weights_.block(action.version),
                                             rank_.config.program.keeps, last);
}

void StageExecutor::drop_gathered() {
  const Keeping& keeps = rank_.config.program.keeps;
  if (!keeps.outer_weights_stay && !keeps.layer_weights_stay) return;
  for (int chunk = 0; chunk < run_->schedule.chunks; ++chunk)
    for (const Parameter* p : model_.part(chunk).parameters())
      if (p->unit) p->unit->weights.release();
}

PassMemo::Ends StageExecutor::ends_of(const Making& making) {
  Flight& flight = making.flight;
  if (making.forward()) return {&flight.activation.tensor, &flight.output, flight.microbatch};
  if (making.action.kind == ActionKind::weight_backward)
    return {nullptr, nullptr, flight.microbatch};
  return {&flight.gradient.tensor, &flight.input_gradient, flight.microbatch};
}

void StageExecutor::make_passes(const std::vector<Making>& passes) {
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
    without_tensors &= making.forward() || flight.kept == Kept::bytes;
  }
  const HeldPerPart before = rank_.ledger.held_per_part();
  const PassMemo::Noted* known = noted ? memo_->find(key) : nullptr;
  if (known != nullptr && known->repeatable() && without_tensors) {
    known->repeat(ends, parameters);
    for (const Making& making : passes) making.flight.kept = Kept::bytes;
  } else {
    for (const Making& making : passes)
      if (making.flight.kept == Kept::bytes) make_tensors(making.action, making.flight);
    if (noted && known == nullptr)
      memo_->note(
          key, [&] { compute_all(passes); }, ends, parameters);
    else
      compute_all(passes);
  }
  // Of two, the first that keeps something is not noted: a pass before them was.
  if (passes.size() == 1 && passes.front().forward() && !run_->scales.empty())
    rank_.ledger.note_kept(before);
  for (const Making& making : passes) leave(making);
  for (size_t i = 0; i < passes.size(); ++i) rank_.device.end_pass();
}

void StageExecutor::leave(const Making& making) {
  // What has been sent is kept until then.
  if (!making.forward()) making.flight.output.release();
  making.flight.progress = progress_after(making.action.kind);
  hand_over(making.action, making.flight);
}

void StageExecutor::compute_all(const std::vector<Making>& passes) {
  if (passes.size() == 1) return compute(passes.front());
  const auto beside = [&](const Making& making) {
    return [this, &making](Interleaving& other) {
      named(making.action, [&] { compute({making.action, making.flight, &other}); });
    };
  };
  Interleaving::run(beside(passes.front()), beside(passes.back()));
}

void StageExecutor::hand_over(const Action& action, Flight& flight) {
  const bool forward = action.kind == ActionKind::forward;
  Tensor& made = forward ? flight.output : flight.input_gradient;
  if (made.empty()) return;
  const auto next = run_->schedule.layout().neighbour({rank_.stage(), action.chunk}, forward);
  if (!next || next->stage != rank_.stage()) return;
  Flight& there = flights_[flight_of({.chunk = next->chunk, .microbatch = action.microbatch})];
  Arrival& arrival = forward ? there.activation : there.gradient;
  arrival.action = action;
  arrival.tensor = made;
  // As of what is sent.
  if (!forward || !rank_.config.keeps_outputs() || run_->scales.empty()) made.release();
  arrival.tensor.labelled(Kind::communication, memory_of(action));
}

StageExecutor::Progress StageExecutor::progress_after(ActionKind pass) const {
  if (pass == ActionKind::forward) return run_->scales.empty() ? Progress::over : Progress::forward;
  return pass == ActionKind::input_backward ? Progress::owing : Progress::over;
}

void StageExecutor::compute(const Making& making) {
  if (making.forward()) {
    forward(making);
  } else if (making.action.kind == ActionKind::weight_backward) {
    weight_backward(making);
  } else {
    backward(making);
  }
}

void StageExecutor::make_tensors(const Action& action, Flight& flight) {
  const Uncounted uncounted(rank_);
  const ParameterList& parameters = overwritten_.at(static_cast<size_t>(action.chunk));
  const std::vector<bool> fresh = fresh_of(parameters);
  const auto arrived = [&] {
    Tensor tensor = hidden_state({});
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
  make_fresh(parameters, fresh);
  flight.saved = std::move(again.saved);
  flight.deferred = std::move(again.deferred);
  flight.kept = Kept::tensors;
}

void StageExecutor::drop_flights() {
  for (auto& [key, flight] : flights_) {
    if (flight.kept == Kept::tensors || flight.progress == Progress::over) continue;
    const bool owing = flight.progress == Progress::owing;
    make_tensors({owing ? ActionKind::weight_backward : ActionKind::backward, flight.chunk,
                  flight.microbatch, weights_.newest()},
                 flight);
  }
  flights_.clear();
  drop_gathered();
}

void StageExecutor::forward(const Making& making) {
  const auto& [action, flight, beside] = making;
  const Gpt& part = model_.part(action.chunk);
  Pass pass = pass_of(making);
  std::optional<GatheredWeights> gathered = gathered_for(action);
  if (gathered) pass.weights = &*gathered;
  const auto [batch, microbatch] = place_of(action);
  const MicroBatch& data = run_->batches.at(batch).at(microbatch);
  Gpt::Input input{.hidden = std::move(flight.activation.tensor),
                   .tokens = {},
                   .labels = {},
                   .scale = {},
                   .turns = flight.turns};
  if (!run_->scales.empty()) input.scale = run_->scales.at(batch);
  if (part.part().first) input.tokens = local_integers(pass, data.tokens);
  if (part.part().last) input.labels = local_integers(pass, data.labels);
  Tensor y = part.forward(pass, input, flight.saved);
  if (part.part().last)
    pass.run(Sum{y, totals_.view().sliced(0, static_cast<int64_t>(batch), 1)});
  else
    flight.output = std::move(y);
  if (run_->scales.empty()) flight.saved = {};
}

bool StageExecutor::begins_sums(const Flight& flight) const {
  return rank_.config.overlap_grad_reduce && flight.last && !run_->optimizer.empty() &&
         !keep_gradients;
}

void StageExecutor::weight_backward(const Making& making) {
  const int chunk = making.action.chunk;
  Pass pass = pass_of(making);
  const OnGradients complete = [&](const Pass& at, const ParameterList& parameters) {
    optimizer_.reduction().buckets().complete(at, chunk, parameters);
  };
  if (begins_sums(making.flight)) pass.on_gradients = &complete;
  for (const auto& compute : making.flight.deferred) compute(pass);
  making.flight.deferred.clear();
  if (begins_sums(making.flight)) optimizer_.reduction().buckets().complete(pass, chunk);
}

void StageExecutor::backward(const Making& making) {
  const auto& [action, flight, beside] = making;
  Pass pass = pass_of(making);
  std::optional<GatheredWeights> gathered = gathered_for(action);
  if (gathered) pass.weights = &*gathered;
  if (action.kind == ActionKind::input_backward) pass.deferred = &flight.deferred;
  const OptimizerOptions* options =
      run_->optimizer.empty() ? nullptr : &run_->optimizer.at(place_of(action).first);
  BackwardReduction reduction(optimizer_, flight.last, options, weights_.block(weights_.newest()));
  const OnGradients on_gradients = [&](const Pass& at, const ParameterList& parameters) {
    if (begins_sums(making.flight))
      optimizer_.reduction().buckets().complete(at, making.action.chunk, parameters);
    else if (rank_.config.reduces_in_backward())
      reduction.add(at, parameters);
    else if (options == nullptr)
      for (Parameter* p : parameters) p->gradient.release();
    else
      optimizer_.step_in_backward(at, parameters, *options);
  };
  if (begins_sums(flight) ||
      ((rank_.config.step_in_backward || rank_.config.reduces_in_backward()) && !keep_gradients))
    pass.on_gradients = &on_gradients;
  if (pass.deferred != nullptr && pass.on_gradients != nullptr)
    throw std::logic_error(
        "weights cannot step in a backward pass that leaves their gradients out");
  flight.input_gradient =
      model_.part(action.chunk)
          .backward(pass, std::move(flight.gradient.tensor),
                    run_->scales.at(place_of(action).first), std::move(flight.saved));
  reduction.finish(pass);
  if (begins_sums(flight)) optimizer_.reduction().buckets().complete(pass, action.chunk);
}

}  // namespace frugal::engine
