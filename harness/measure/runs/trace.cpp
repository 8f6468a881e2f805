#include "harness/measure/runs/trace.h"

#include <algorithm>
#include <utility>

#include "engine/train/trainer.h"

namespace frugal::harness {

TraceRecorder::TraceRecorder(Cluster& cluster) {
  for (int i = 0; i < cluster.local_ranks(); ++i) {
    Rank& rank = cluster.rank(i);
    if (!rank.first_of_stage()) continue;
    rank.ledger.record_timeline(true);
    rank.host.record_timeline(true);
    ranks_.push_back(&rank);  // ranks are numbered by stage
  }
  trace_.stages.resize(ranks_.size());
}

void TraceRecorder::begin(Trainer& trainer) {
  trainer.keep_timeline(true);
  for (Rank* rank : ranks_)
    if (auto* device = dynamic_cast<VirtualDevice*>(&rank->device)) device->keep_log(true);
}

void TraceRecorder::add(const Trainer& trainer) {
  const Timeline& timeline = trainer.timeline();
  const bool first = std::all_of(trace_.stages.begin(), trace_.stages.end(),
                                 [](const StageTrace& stage) { return stage.spans.empty(); });
  trace_.chunks = timeline.chunks;
  trace_.placement = timeline.placement;
  trace_.microbatches = timeline.microbatches;
  for (size_t s = 0; s < trace_.stages.size(); ++s) {
    const Trainer::StageNotes& notes = trainer.notes().at(s);
    StageTrace& stage = trace_.stages[s];
    if (first) trace_.begin = s == 0 ? notes.start : std::min(trace_.begin, notes.start);
    for (Span span : timeline.stages.at(s)) {
      span.begin += notes.start;
      span.end += notes.start;
      stage.spans.push_back(span);
    }
    stage.versions.insert(stage.versions.end(), notes.versions.begin(), notes.versions.end());
  }
}

Trace TraceRecorder::take() {
  for (size_t s = 0; s < ranks_.size(); ++s) {
    trace_.stages[s].memory = ranks_[s]->ledger.timeline();
    trace_.stages[s].host = ranks_[s]->host.timeline();
    if (const auto* device = dynamic_cast<const VirtualDevice*>(&ranks_[s]->device))
      trace_.stages[s].streams = device->log();
  }
  return std::move(trace_);
}

}  // namespace frugal::harness
