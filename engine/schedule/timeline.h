#pragma once
#include <optional>
#include <string>

#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// Number of versions of the weights from `time` on, seconds on the device's clock.
struct VersionCount {
  double time = 0;
  size_t alive = 0;
};

/// One action, and when. A message's receive begins when its stage begins to wait for it; its send
/// when it sets out. Two passes that are made together both begin and end when the two do.
struct Span {
  Action action;
  double begin = 0;
  double end = 0;
};

/// Actions of each stage, and when: planned by simulate(), or recorded by a run, virtual or
/// measured.
struct Timeline {
  std::string title;
  std::string unit;  ///< of all times: "s", or empty where a forward pass takes 1
  int chunks = 1;    ///< of each stage
  Placement placement = Placement::around;
  int microbatches = 1;                   ///< of a batch
  std::vector<std::vector<Span>> stages;  ///< each in the order of its schedule

  PartLayout layout() const { return {static_cast<int>(stages.size()), chunks, placement}; }

  double begin() const;
  double end() const;
};

struct ClockCosts;

/// Durations of actions. A pass through one of several chunks takes its share.
struct Durations {
  double forward = 1;
  double backward = 2;
  double input_backward = 1;
  double weight_backward = 1;
  /// A forward and a whole backward pass that are made together; by default one after the other.
  std::optional<double> together = std::nullopt;
  double activation = 0;  ///< a message's way
  double gradient = 0;
  double step = 0;

  ClockCosts costs(const Schedule& schedule) const;
};

/// Times of each action, played by PipelineClock (clock.h). With `late_warm_up` each stage's
/// last forward before a backward it waits for is as late as changes nothing else, as
/// pipedream2bw2021 draws 1F1B and its kin. The schedule must be right (check.h).
Timeline simulate(const Schedule& schedule, const Durations& durations = {},
                  bool late_warm_up = false);

/// Parts of each stage's receives in which their message was on its way: what is left of
/// a receive it waited for something else.
std::vector<std::vector<Span>> transits(const Timeline& timeline);

/// Division of a stage's time, between the timeline's begin and end.
struct Bubble {
  double busy = 0;           ///< passes and steps
  double start_up = 0;       ///< before the first of them
  double drain = 0;          ///< after the last
  double communication = 0;  ///< in between, waiting for a message that was on its way
  double stalls = 0;         ///< in between, waiting for anything else

  double total() const { return busy + start_up + drain + communication + stalls; }
  double idle() const { return total() - busy; }
  /// Share of the total that is idle; 0 of nothing.
  double idle_fraction() const { return total() > 0 ? idle() / total() : 0; }
};
/// Bubble of each stage.
std::vector<Bubble> bubbles(const Timeline& timeline);
/// Bubble as the pipelines' papers count it, (p − 1)/m with a flush: idle over busy time, all
/// stages together. A stage is busy somewhere.
double idle_over_busy(const Timeline& timeline);

}  // namespace frugal::engine
