#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "engine/schedule/text.h"
#include "harness/measure/runs/trace.h"

namespace frugal::harness {
namespace {

/// Threads of a process, in the order in which they are shown. Messages are on two tracks as they
/// are sent, whatever their streams, and as they are received among the waits.
enum class Track : uint8_t {
  passes,
  waits,
  activations,
  gradients,
  compute,
  communication,
  sequences,
  replicas,
  stages,
  copy,
  to_host,
  from_host,
  ends
};
constexpr std::array<std::string_view, 13> track_names = {"passes",
                                                          "waits",
                                                          "activations to later stages",
                                                          "gradients to earlier stages",
                                                          "stream: compute",
                                                          "stream: communication",
                                                          "stream: sequences",
                                                          "stream: replicas",
                                                          "stream: stages",
                                                          "stream: copy",
                                                          "stream: to host",
                                                          "stream: from host",
                                                          "stream: ends"};

Track track_of(const Action& action) {
  if (!is_message(action.kind)) return Track::passes;
  if (!is_send(action.kind)) return Track::waits;
  return action.kind == ActionKind::send_activation ? Track::activations : Track::gradients;
}

/// Track of a stream by its name; nothing where other spans show it.
std::optional<Track> track_of(std::string_view stream) {
  const auto found = std::ranges::find(track_names, fmt::format("stream: {}", stream));
  if (found == track_names.end()) return std::nullopt;
  return static_cast<Track>(found - track_names.begin());
}

/// "F3": the version of the weights stands among the arguments.
std::string label(const Action& action, int chunks) {
  const std::string text = to_text(action, chunks);
  return text.substr(0, text.find('@'));
}

/// A pass that waits for messages, where they would come to it: stage, forward or not, chunk,
/// microbatch.
using Taker = std::tuple<int, bool, int, int>;

class Writer {
 public:
  explicit Writer(const Trace& trace)
      : trace_(trace),
        layout_{static_cast<int>(trace.stages.size()), trace.chunks, trace.placement} {}

  std::string write() {
    for (stage_ = 0; stage_ < layout_.stages; ++stage_) {
      const StageTrace& stage = trace_.stages[static_cast<size_t>(stage_)];
      metadata("process_name", fmt::format(R"("name":"stage {}")", stage_));
      metadata("process_sort_index", fmt::format(R"("sort_index":{})", stage_));
      for (const Span& span : stage.spans) write(span);
      for (const VirtualDevice::Interval& interval : stage.streams) write(interval);
      write_tracks();
      for (const VersionCount& count : stage.versions)
        counter("weight versions", time(count.time), "alive", static_cast<int64_t>(count.alive));
      write_memory(stage.memory);
      write_host_memory(stage.host);
    }
    write_arrows();
    return fmt::format(
        "{{\"traceEvents\":[\n{}\n],\n\"displayTimeUnit\":\"ms\",\"otherData\":{}}}\n", events_,
        nlohmann::json(trace_.about).dump());
  }

 private:
  /// Nanoseconds since the trace began. Whole ones, so that spans that touch do not overlap.
  int64_t time(double seconds) const { return std::llround((seconds - trace_.begin) * 1e9); }
  static std::string microseconds(int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void event(const std::string& members) {
    if (!events_.empty()) events_ += ",\n";
    events_ += fmt::format(R"({{"pid":{},{}}})", stage_, members);
  }

  void metadata(const char* name, const std::string& arguments) {
    event(fmt::format(R"("ph":"M","name":"{}","args":{{{}}})", name, arguments));
  }

  void write_tracks() {
    for (const Track track : used_) {
      const auto number = static_cast<size_t>(track);
      event(fmt::format(R"("ph":"M","tid":{},"name":"thread_name","args":{{"name":"{}"}})", number,
                        track_names[number]));
      event(fmt::format(
          R"("ph":"M","tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}})", number));
    }
    used_.clear();
  }

  void slice(Track track, std::string_view name, double begin, double end,
             const std::string& arguments) {
    used_.insert(track);
    event(fmt::format(R"("ph":"X","tid":{},"name":"{}","ts":{},"dur":{},"args":{{{}}})",
                      static_cast<int>(track), name, microseconds(time(begin)),
                      microseconds(time(end) - time(begin)), arguments));
  }

  void write(const Span& span) {
    const Action& action = span.action;
    std::string arguments =
        action.kind == ActionKind::step
            ? fmt::format(R"("batch":{})", action.version - 1)
            : fmt::format(R"("microbatch":{},"chunk":{},"batch":{})", action.microbatch,
                          action.chunk, action.microbatch / trace_.microbatches);
    if (!is_message(action.kind)) arguments += fmt::format(R"(,"version":{})", action.version);
    slice(track_of(action), label(action, trace_.chunks), span.begin, span.end, arguments);
    const bool forward = action.kind == ActionKind::forward;
    if (forward || action.kind == ActionKind::backward || action.kind == ActionKind::input_backward)
      takers_[{stage_, forward, action.chunk, action.microbatch}] = time(span.begin);
  }

  void write(const VirtualDevice::Interval& interval) {
    const std::optional<Track> track = track_of(interval.stream);
    if (track && interval.begin >= trace_.begin)
      slice(*track, interval.name, interval.begin, interval.end, "");
  }

  void counter(const char* name, int64_t at, std::string_view series, int64_t value) {
    event(fmt::format(R"("ph":"C","name":"{}","ts":{},"args":{{"{}":{}}})", name, microseconds(at),
                      series, value));
  }

  void write_memory(const std::vector<Ledger::Change>& changes) {
    BytesPerKind in_use{};
    int64_t total = 0;
    const auto show = [&](size_t kind, int64_t at) {
      counter("memory", at, name_of(static_cast<Kind>(kind)), in_use[kind]);
    };
    const auto add = [&](const Ledger::Change& change) {
      in_use[static_cast<size_t>(change.kind)] += change.bytes;
      total += change.bytes;
    };
    auto change = changes.begin();
    for (; change != changes.end() && change->time < trace_.begin; ++change) add(*change);
    for (size_t kind = 0; kind < in_use.size(); ++kind) show(kind, 0);
    counter("memory in use", 0, "bytes", total);
    for (; change != changes.end(); ++change) {
      add(*change);
      show(static_cast<size_t>(change->kind), time(change->time));
      counter("memory in use", time(change->time), "bytes", total);
    }
  }

  /// Where the host's is used at all.
  void write_host_memory(const std::vector<Ledger::Change>& changes) {
    int64_t in_use = 0;
    for (const Ledger::Change& change : changes) {
      in_use += change.bytes;
      counter("host memory in use", std::max<int64_t>(time(change.time), 0), "bytes", in_use);
    }
  }

  /// From each message, at its beginning, to the pass that takes it. Both lie within their slices,
  /// to which the readers attach them.
  void write_arrows() {
    int64_t id = 0;
    for (int from = 0; from < layout_.stages; ++from)
      for (const Span& span : trace_.stages[static_cast<size_t>(from)].spans) {
        const Action& action = span.action;
        if (!is_send(action.kind)) continue;
        const auto peer = peer_of(layout_, from, action);
        if (!peer) continue;
        const bool forward = action.kind == ActionKind::send_activation;
        const auto taker = takers_.find({peer->stage, forward, peer->chunk, action.microbatch});
        if (taker == takers_.end()) continue;
        const std::string both = fmt::format(R"("cat":"message","name":"{}","id":{})",
                                             forward ? "activation" : "gradient", id++);
        stage_ = from;
        event(fmt::format(R"("ph":"s","tid":{},"ts":{},{})", static_cast<int>(track_of(action)),
                          microseconds(time(span.begin)), both));
        stage_ = peer->stage;
        event(fmt::format(R"("ph":"f","bp":"e","tid":{},"ts":{},{})",
                          static_cast<int>(Track::passes), microseconds(taker->second), both));
      }
  }

  const Trace& trace_;
  const PartLayout layout_;
  int stage_ = 0;
  std::string events_;
  std::set<Track> used_;
  std::map<Taker, int64_t> takers_;
};

}  // namespace

std::string to_json(const Trace& trace) { return Writer(trace).write(); }

}  // namespace frugal::harness
