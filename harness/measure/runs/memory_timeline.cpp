#include "harness/measure/runs/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace frugal::harness {
namespace {

const char* phase_of(const Action& action) {
  if (action.kind == ActionKind::step) return "step";
  return action.kind == ActionKind::forward ? "forward" : "backward";
}

/// Changes of the device's memory and of the host's, in the order in which they were.
class Changes {
 public:
  explicit Changes(const StageTrace& stage) : stage_(stage) {}

  bool end() const { return device_ == stage_.memory.size() && host_ == stage_.host.size(); }
  double time() const {
    if (device_ == stage_.memory.size()) return stage_.host[host_].time;
    return takes_host() ? stage_.host[host_].time : stage_.memory[device_].time;
  }
  /// The next one; what it adds to is `in_use`, or `on_host` of the host's memory.
  void apply(BytesPerKind& in_use, int64_t& on_host) {
    if (takes_host()) {
      on_host += stage_.host[host_++].bytes;
      return;
    }
    const Ledger::Change& change = stage_.memory[device_++];
    in_use[static_cast<size_t>(change.kind)] += change.bytes;
  }

 private:
  bool takes_host() const {
    return device_ == stage_.memory.size() ||
           (host_ < stage_.host.size() && stage_.host[host_].time < stage_.memory[device_].time);
  }

  const StageTrace& stage_;
  size_t device_ = 0, host_ = 0;
};

/// One row after each change, and one each at the beginning and the end of the trace.
class Rows {
 public:
  Rows(const StageTrace& stage, double begin) : changes_(stage), begin_(begin) {
    for (const Span& span : stage.spans)
      if (!is_message(span.action.kind)) spans_.push_back(&span);
  }

  std::string write() {
    while (!changes_.end() && changes_.time() < begin_) changes_.apply(in_use_, on_host_);
    add(begin_);
    while (!changes_.end()) {
      const double time = changes_.time();
      changes_.apply(in_use_, on_host_);
      add(time);
    }
    if (!spans_.empty()) add(std::max(last_, spans_.back()->end));
    return std::move(text_);
  }

 private:
  void add(double time) {
    last_ = time;
    while (span_ + 1 < spans_.size() && spans_[span_ + 1]->begin <= time) ++span_;
    text_ += fmt::format("{}[{:.9f},\"{}\"", text_.empty() ? "" : ",\n", time - begin_,
                         spans_.empty() ? "" : phase_of(spans_[span_]->action));
    for (const int64_t bytes : in_use_) text_ += fmt::format(",{}", bytes);
    text_ += fmt::format(",{}]", on_host_);
  }

  Changes changes_;
  double begin_, last_ = 0;
  std::vector<const Span*> spans_;  // of passes and steps
  size_t span_ = 0;
  BytesPerKind in_use_{};
  int64_t on_host_ = 0;
  std::string text_;
};

}  // namespace

std::string memory_to_json(const Trace& trace) {
  nlohmann::json columns = {"time", "phase"};
  for (int i = 0; i < kind_count; ++i) columns.push_back(name_of(static_cast<Kind>(i)));
  columns.push_back("host");
  std::string stages;
  for (const StageTrace& stage : trace.stages)
    stages += fmt::format("{}{{\"rows\":[\n{}\n]}}", stages.empty() ? "" : ",\n",
                          Rows(stage, trace.begin).write());
  return fmt::format(
      "{{\"schema\":\"frugal.memory/1\",\n\"about\":{},\n\"columns\":{},\n\"stages\":[{}]}}\n",
      nlohmann::json(trace.about).dump(), columns.dump(), stages);
}

}  // namespace frugal::harness
