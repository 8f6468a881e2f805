#include "engine/plan/appendix_a.h"

#include <algorithm>

namespace frugal::engine {
namespace {

/// A configuration with what its prediction is made of.
struct Pipeline {
  const RunConfig& run;
  std::vector<PartCost> parts;    // of each stage
  std::vector<double> messages;   // seconds from each stage to the next, or back
  std::vector<double> sends;      // those of them in which the sender does not compute
  std::vector<double> exchanges;  // both at once
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
  Pipeline pipe{.run = run,
                .parts = {},
                .messages = {},
                .sends = {},
                .exchanges = {},
                .kind = run.program.software.messages};
  const MessageCost message(run, times);
  for (const int senders : links.senders) {
    pipe.messages.push_back(message.seconds(times, senders));
    pipe.sends.push_back(pipe.messages.back() - times.buffered(message.sent, pipe.messages.back()));
  }
  for (const int both : links.exchanging)
    pipe.exchanges.push_back(message.seconds(times, both, Ways::both));
  for (int i = 0; i < run.pipeline_parallel; ++i)
    pipe.parts.push_back(costs.of(ModelPart::of(run, i, 0)));
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

/// The least seconds of a batch without a flush because of a tied table, whose gradients the ends
/// sum from the first stage's step on, beside the next batch. The batch after that begins with the
/// sum. From there to the next step the first stage has the pairs of passes that fill the pipeline;
/// and the first microbatch returns to it one microbatch after that step.
double late_table(const Pipeline& pipe, const StagePrediction& first, double tied,
                  const Spent& each) {
  const double pair = first.compute + pipe.held(0);
  const double fill = (pipe.stages() - 1) * std::max(pair, each.total());
  const double step = first.all_reduce + first.update + pair;
  const double trip = round_trip(pipe, 0, pipe.stages() - 1).total();
  return first.all_reduce + tied + std::max(fill, trip - std::max(step, each.total()));
}

}  // namespace

PassesTime passes_by_equations(const RunConfig& run, const PartCosts& costs, const Links& links,
                               const CostModel& times) {
  const Pipeline pipe = pipeline_of(run, costs, links, times);
  const Spent trip = round_trip(pipe, 0, pipe.stages() - 1);
  const Spent each = steady_state(pipe, trip);
  const auto m = static_cast<double>(run.microbatches);
  // The batch's first microbatch has nobody to share its round trip with.
  return {m * each.compute, m * each.messages,
          run.schedule.flushes ? trip.total() - each.total() : 0};
}

double late_table(const RunConfig& run, const PartCosts& costs, const Links& links,
                  const CostModel& times, const StagePrediction& first, double tied) {
  const Pipeline pipe = pipeline_of(run, costs, links, times);
  return late_table(pipe, first, tied, steady_state(pipe, round_trip(pipe, 0, pipe.stages() - 1)));
}

}  // namespace frugal::engine
