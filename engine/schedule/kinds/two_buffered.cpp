#include "engine/schedule/passes.h"

namespace frugal::engine {

/// The version of batch b, max(b − 1, 0), is the newest that surely exists on all stages; the paper
/// writes max(⌊(k − 1)/m⌋ − 1, 0) for microbatch k counted from 1.
constinit const ScheduleKind ScheduleKind::two_buffered = {
    .name = "2bw",
    .help = "PipeDream-2BW: 1F1B without a flush; batch b uses version max(b − 1, 0); m ≥ d",
    .source = "pipedream2bw2021, section 3.1 and figure 2",
    .flushes = false,
    .delay = 1,
    .least_per_stage = 1,
    .why_least = "with fewer, two versions of the weights are not enough",
    .passes = passes_of_1f1b,
    .in_flight = in_flight_of_1f1b,
};

}  // namespace frugal::engine
