#include "harness/report/formats/memory_snapshot.h"

#include <fmt/format.h>

#include <cmath>
#include <compare>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/report/formats/pickle.h"

namespace frugal::harness {
namespace {

struct Allocation {
  int64_t address = 0, bytes = 0;
};
/// What memory is for, and where: what its frames say.
struct Label {
  Kind kind;
  engine::Place place;
  auto operator<=>(const Label&) const = default;
};
/// Lists of frames, as the pickle remembers them.
using Frames = std::map<Label, uint32_t>;

/// One stage's events, and what is left at their end.
class SnapshotDevice {
 public:
  SnapshotDevice(Pickle& out, Frames& frames, int64_t& next)
      : out_(out), frames_(frames), next_(next) {}

  void write_events(const std::vector<Ledger::Change>& changes) {
    out_.open_list();
    for (const Ledger::Change& change : changes) {
      const auto time = std::llround((change.time - changes.front().time) * 1e6);
      if (change.bytes > 0) taken(change, time);
      if (change.bytes < 0) given_back(change, time);
    }
    out_.close_list();
  }
  /// Items of a list that is open.
  void write_segments(int device) {
    for (const auto& [label_and_size, allocations] : live_)
      for (const Allocation& a : allocations) segment(device, label_and_size.first, a);
  }

 private:
  /// The innermost first.
  void frames(const Label& label) {
    out_.key("frames");
    const auto [known, is_new] = frames_.try_emplace(label);
    if (!is_new) {
      out_.refer(known->second);
      return;
    }
    const auto& [kind, at] = label;
    out_.open_list();
    frame("module", 0, name_of(at.part));
    if (at.microbatch >= 0)
      frame("microbatch", at.microbatch, fmt::format("microbatch {}", at.microbatch));
    if (at.layer >= 0) frame("layer", at.layer, fmt::format("layer {}", at.layer));
    frame("kind", static_cast<int>(kind), name_of(kind));
    out_.close_list();
    known->second = out_.remember();
  }
  void frame(std::string_view file, int line, std::string_view name) {
    out_.item();
    out_.open_dictionary();
    out_.pair("filename", file);
    out_.pair("line", line);
    out_.pair("name", name);
    out_.close_dictionary();
  }

  void event(std::string_view action, const Label& label, const Allocation& a, int64_t time) {
    out_.item();
    out_.open_dictionary();
    out_.pair("action", action);
    out_.pair("addr", a.address);
    out_.pair("size", a.bytes);
    out_.pair("stream", 0);
    out_.pair("time_us", time);
    frames(label);
    out_.close_dictionary();
  }
  void taken(const Ledger::Change& change, int64_t time) {
    const Label label{change.kind, change.place};
    const Allocation a{next_, change.bytes};
    next_ += change.bytes;
    for (const char* action : {"segment_alloc", "alloc"}) event(action, label, a, time);
    live_[{label, a.bytes}].push_back(a);
  }
  /// Of those of the same kind, place and size the ledger does not say which.
  void given_back(const Ledger::Change& change, int64_t time) {
    const Label label{change.kind, change.place};
    std::vector<Allocation>& same = live_[{label, -change.bytes}];
    if (same.empty()) throw std::logic_error("more was given back than was taken");
    const Allocation a = same.back();
    same.pop_back();
    for (const char* action : {"free_requested", "free_completed", "segment_free"})
      event(action, label, a, time);
  }

  void segment(int device, const Label& label, const Allocation& a) {
    out_.item();
    out_.open_dictionary();
    out_.pair("device", device);
    out_.pair("address", a.address);
    for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"})
      out_.pair(size, a.bytes);
    out_.pair("stream", 0);
    out_.pair("segment_type", "large");
    frames(label);
    out_.key("blocks");
    out_.open_list();
    out_.item();
    out_.open_dictionary();
    out_.pair("address", a.address);
    for (const char* size : {"size", "requested_size"}) out_.pair(size, a.bytes);
    out_.pair("state", "active_allocated");
    frames(label);
    out_.close_dictionary();
    out_.close_list();
    out_.close_dictionary();
  }

  Pickle& out_;
  Frames& frames_;
  int64_t& next_;  ///< address, of all devices
  std::map<std::pair<Label, int64_t>, std::vector<Allocation>> live_;
};

}  // namespace

std::string memory_snapshot(const Trace& trace) {
  Pickle out;
  Frames frames;
  int64_t next = int64_t{1} << 32;  // an address that is not null
  std::vector<SnapshotDevice> devices(trace.stages.size(), SnapshotDevice(out, frames, next));
  out.open_dictionary();
  out.key("device_traces");
  out.open_list();
  for (size_t i = 0; i < devices.size(); ++i) {
    out.item();
    devices[i].write_events(trace.stages[i].memory);
  }
  out.close_list();
  out.key("segments");
  out.open_list();
  for (size_t i = 0; i < devices.size(); ++i) devices[i].write_segments(static_cast<int>(i));
  out.close_list();
  out.key("about");
  out.open_dictionary();
  for (const auto& [name, text] : trace.about) out.pair(name, text);
  out.close_dictionary();
  out.close_dictionary();
  return std::move(out).take();
}

}  // namespace frugal::harness
