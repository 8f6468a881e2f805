#include "engine/plan/predict.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "engine/rank_grid.h"

namespace frugal::engine {
namespace {

/// A configuration with what its prediction is made of.
struct Pipeline {
  const RunConfig& run;
  std::vector<PartCost> parts;    // of each stage
  std::vector<double> messages;   // seconds from each stage to the next, or back
  std::vector<double> sends;      // those of them in which the sender does not compute
  std::vector<double> exchanges;  // both at once
  double message_bytes = 0;
  double tied = 0;  // seconds in which the ends sum a tied table's gradients; 0 of untied ones
  Messages kind = Messages::beside;

  int stages() const { return run.pipeline_parallel; }
  double compute(int i) const {
    const PartCost& part = parts[static_cast<size_t>(i)];
    return part.forward + part.backward;
  }
  double message(int i) const { return messages[static_cast<size_t>(i)]; }
  /// Seconds in which messages of one microbatch hold up stage i: those that it sends, where they
  /// block, and an exchange with each neighbour, where they are exchanged.
  double held(int i) const {
    const std::vector<double>& each = kind == Messages::exchanged ? exchanges : messages;
    return kind == Messages::beside ? 0 : before(i, each) + behind(i, each);
  }
  /// The same of messages of one direction alone, of which it receives one and sends one.
  double held_one_way(int i) const {
    if (kind == Messages::beside) return 0;
    if (kind == Messages::blocking) return held(i) / 2;
    return std::max(before(i, messages) + behind(i, sends), before(i, sends) + behind(i, messages));
  }

 private:
  /// From the stage before, and to the one behind.
  double before(int i, const std::vector<double>& seconds) const {
    return i > 0 ? seconds[static_cast<size_t>(i) - 1] : 0;
  }
  double behind(int i, const std::vector<double>& seconds) const {
    return i + 1 < stages() ? seconds[static_cast<size_t>(i)] : 0;
  }
};

Pipeline pipeline_of(const RunConfig& run, const PartCosts& costs, const Links& links,
                     const CostModel& times) {
  const Software& software = run.program.software;
  Pipeline pipe{.run = run,
                .parts = {},
                .messages = {},
                .sends = {},
                .exchanges = {},
                .kind = software.messages};
  const bool sharded = run.sequence_parallel;
  const int64_t shards = sharded ? run.tensor_parallel : 1;
  const int64_t tokens = run.model.sequence / shards * run.micro_batch;
  pipe.message_bytes = static_cast<double>(tokens * run.model.hidden * size_of(run.type));
  const int parts = software.sharded_messages && !sharded ? run.tensor_parallel : 1;
  const double sent = pipe.message_bytes / parts;
  const double gather = times.all_gather(times.group(parts), pipe.message_bytes);
  const auto seconds = [&](int senders, Ways ways) {
    return gather + (senders == 0 ? times.message(true, sent)
                                  : times.message_between_nodes(senders, sent, ways));
  };
  for (const int senders : links.senders) {
    pipe.messages.push_back(seconds(senders, Ways::one));
    pipe.sends.push_back(pipe.messages.back() - times.buffered(sent, pipe.messages.back()));
  }
  for (const int both : links.exchanging) pipe.exchanges.push_back(seconds(both, Ways::both));
  for (int i = 0; i < run.pipeline_parallel; ++i)
    pipe.parts.push_back(costs.of(ModelPart::of(run, i, 0)));
  const int64_t table = run.model.vocabulary / run.tensor_parallel * run.model.hidden;
  if (run.pipeline_parallel > 1 && run.model.tied)
    pipe.tied =
        times.all_reduce(links.ends, static_cast<double>(table * size_of(run.state_type())));
  return pipe;
}

/// A sum of seconds, by what they are spent on.
struct Spent {
  double compute = 0, messages = 0;
  double total() const { return compute + messages; }
  Spent& operator+=(const Spent& other) {
    compute += other.compute;
    messages += other.messages;
    return *this;
  }
};
Spent operator*(double n, Spent s) { return {n * s.compute, n * s.messages}; }

/// Of one microbatch there and back through stages i to j.
Spent round_trip(const Pipeline& pipe, int i, int j) {
  Spent spent;
  for (int k = i; k <= j; ++k) {
    spent.compute += pipe.compute(k);
    if (k < j) spent.messages += 2 * pipe.message(k);
  }
  return spent;
}

/// Of each microbatch where forwards and backwards take turns: T_comp + Σ T_comm of the slowest
/// stage. Stages i to j pass a microbatch there and back while j − i others are between them, so
/// that they share the round trip.
Spent there_and_back(const Pipeline& pipe) {
  Spent slowest;
  for (int i = 0; i < pipe.stages(); ++i) {
    Spent trip;
    for (int j = i; j < pipe.stages(); ++j) {
      trip.compute += pipe.compute(j);
      if (j > i) trip.messages += 2 * pipe.message(j - 1);
      const Spent each = 1.0 / (j - i + 1) * trip;
      if (each.total() > slowest.total()) slowest = each;
    }
    const Spent alone{pipe.compute(i), pipe.held(i)};
    if (alone.total() > slowest.total()) slowest = alone;
  }
  return slowest;
}

/// Of each microbatch in one direction, in which nothing waits for an answer.
Spent one_way(const Pipeline& pipe, double PartCost::*pass) {
  double compute = 0, message = 0;
  double held = 0;
  for (int i = 0; i < pipe.stages(); ++i) {
    const double pass_of_stage = pipe.parts[static_cast<size_t>(i)].*pass;
    compute = std::max(compute, pass_of_stage);
    held = std::max(held, pass_of_stage + pipe.held_one_way(i));
  }
  for (const double seconds : pipe.messages) message = std::max(message, seconds);
  return {compute, std::max({message - compute, held - compute, 0.0})};
}

/// Of each microbatch in a full pipeline; `trip`: of one that has all stages for itself.
Spent steady_state(const Pipeline& pipe, const Spent& trip) {
  Spent each;
  switch (pipe.run.schedule.steady) {
    case SteadyState::alone:
      return trip;
    case SteadyState::one_way:
      each = one_way(pipe, &PartCost::forward);
      each += one_way(pipe, &PartCost::backward);
      return each;
    case SteadyState::there_and_back:
      return there_and_back(pipe);
  }
  return each;
}

void predict_memory(const Pipeline& pipe, Prediction& prediction) {
  const ScheduleKind& kind = pipe.run.schedule;
  const auto message = static_cast<int64_t>(pipe.message_bytes);
  for (int i = 0; i < pipe.stages(); ++i) {
    const PartCost& part = pipe.parts[static_cast<size_t>(i)];
    const StageFill fill{.stage = i,
                         .stages = pipe.stages(),
                         .microbatches = static_cast<int>(pipe.run.microbatches)};
    // Beside the microbatch of a pass: the others, and the last message to each neighbour, unless
    // it is waited for.
    const int64_t others = kind.in_flight(fill) - 1;
    const int64_t neighbours =
        pipe.kind == Messages::exchanged ? 0 : (i > 0 ? 1 : 0) + (i + 1 < pipe.stages() ? 1 : 0);
    prediction.stages[static_cast<size_t>(i)].memory =
        part.fixed + (kind.versions_limit(fill) - 1) * part.weights + others * part.kept +
        neighbours * message + std::max(part.forward_peak, part.backward_peak);
  }
}

void predict_stages(const Pipeline& pipe, const Links& links, const CostModel& times,
                    Prediction& prediction) {
  for (int i = 0; i < pipe.stages(); ++i) {
    const PartCost& part = pipe.parts[static_cast<size_t>(i)];
    StagePrediction stage;
    stage.compute = pipe.compute(i);
    if (i > 0) stage.messages += pipe.message(i - 1);
    if (i + 1 < pipe.stages()) stage.messages += pipe.message(i);
    stage.all_reduce = times.all_reduce(links.replicas[static_cast<size_t>(i)],
                                        static_cast<double>(part.gradients));
    // Without a flush, the last passes of a batch take turns with those of the next version.
    const double turns =
        std::min<double>(pipe.stages() - 1 - i, static_cast<double>(pipe.run.microbatches));
    stage.update = part.step + (pipe.run.schedule.delay > 0 ? 2 * turns * part.other_version : 0);
    prediction.stages.push_back(stage);
  }
}

/// The least seconds of a batch without a flush because of a tied table, whose gradients the ends
/// sum from the first stage's step on, beside the next batch. The batch after that begins with the
/// sum. From there to the next step the first stage has the pairs of passes that fill the pipeline;
/// and the first microbatch returns to it one microbatch after that step.
double late_table(const Pipeline& pipe, const StagePrediction& first, const Spent& each) {
  const double pair = first.compute + pipe.held(0);
  const double fill = (pipe.stages() - 1) * std::max(pair, each.total());
  const double step = first.all_reduce + first.update + pair;
  const double trip = round_trip(pipe, 0, pipe.stages() - 1).total();
  return first.all_reduce + pipe.tied + std::max(fill, trip - std::max(step, each.total()));
}

}  // namespace

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::messages:
      return "messages";
    case Bound::all_reduce:
      return "all-reduce";
    case Bound::update:
      return "optimizer";
    case Bound::bubble:
      return "bubble";
  }
  return "?";
}

size_t Prediction::fullest() const {
  return static_cast<size_t>(
      std::max_element(stages.begin(), stages.end(),
                       [](const auto& a, const auto& b) { return a.memory < b.memory; }) -
      stages.begin());
}

OptimizerOptions planned_optimizer(const ScheduleKind& kind) {
  OptimizerOptions options;
  if (!kind.flushes) options.clip = 0;
  return options;
}

Links::Links(const RunConfig& run, const Machine& machine) {
  const Layout layout = layout_of(run);
  const auto per_node = static_cast<int>(machine.devices_per_node);
  for (int i = 0; i < layout.stages; ++i) {
    replicas.push_back(layout.group(Axis::data, i, per_node));
    if (i + 1 == layout.stages) continue;
    const int leaving = layout.senders(i, i + 1, per_node);
    senders.push_back(leaving);
    exchanging.push_back(run.program.software.shared_ports ? layout.exchanging(i, i + 1, per_node)
                                                           : leaving);
  }
  if (layout.stages > 1) ends = layout.group(Axis::ends, 0, per_node);
}

Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine) {
  if (!run.schedule.predicted)
    throw std::invalid_argument("no prediction of schedule " + std::string(run.schedule.name));
  const CostModel times(machine, run.program.software);
  const Pipeline pipe = pipeline_of(run, costs, links, times);
  Prediction prediction;
  predict_stages(pipe, links, times, prediction);
  predict_memory(pipe, prediction);

  const auto m = static_cast<double>(run.microbatches);
  const Spent trip = round_trip(pipe, 0, pipe.stages() - 1);
  const Spent each = steady_state(pipe, trip);
  double all_reduce = 0, update = 0;
  for (const StagePrediction& stage : prediction.stages) {
    all_reduce = std::max(all_reduce, stage.all_reduce);
    update = std::max(update, stage.update);
  }
  // The batch's first microbatch has nobody to share its round trip with.
  const double bubble = run.schedule.flushes ? trip.total() - each.total() : 0;
  const double batch = m * each.total() + all_reduce + update;
  const double tied = run.schedule.flushes || pipe.tied == 0
                          ? pipe.tied
                          : std::max(0.0, late_table(pipe, prediction.stages[0], each) - batch);
  prediction.parts = {m * each.compute, m * each.messages, all_reduce + tied, update, bubble};
  prediction.seconds = std::accumulate(prediction.parts.begin(), prediction.parts.end(), 0.0);
  return prediction;
}

}  // namespace frugal::engine
