#include "engine/memory/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

namespace frugal::engine {

namespace {

/// Kinds that a rank has once for its model, whatever the batch.
bool is_of_the_model(Kind kind) {
  return kind == Kind::parameter || kind == Kind::gradient || kind == Kind::optimizer;
}

std::string in_words(Place place, Kind kind) {
  if (place.layer >= 0) return fmt::format("for layer {}", place.layer);
  if (place.part != Part::model) return fmt::format("for the {}", name_of(place.part));
  return is_of_the_model(kind) ? "for the whole model of a rank" : "outside the layers";
}

/// Advice that reduces memory of a kind.
const char* next_step(Kind kind) {
  if (is_of_the_model(kind))
    return "a larger tensor-parallel size, replicas that share it (shard), or a smaller model";
  return "recomputation, a larger tensor-parallel size with sequence parallelism, or a smaller "
         "microbatch";
}

constexpr const char* hosts_next_step =
    "more ranks that share what is offloaded, a shorter sequence, or no offload";

}  // namespace

Ledger::Entry Ledger::take(int64_t bytes, Kind kind, Place place, MemoryOf use) {
  Entry entry{nullptr, bytes, kind, place};
  try {
    entry.data =
        where_ == Where::host ? device_.allocate_on_host(bytes) : device_.allocate_for(use, bytes);
  } catch (const OutOfMemory& e) {
    const int64_t free = bytes - e.missing();
    throw OutOfMemory(
        fmt::format("{}{}: {} of {} {} did not fit: of {} {} are free{}; try {}", device_.name(),
                    where_ == Where::host ? "'s host" : "", bytes_in_words(bytes), name_of(kind),
                    in_words(place, kind), bytes_in_words(e.capacity),
                    bytes_in_words(std::max<int64_t>(free, 0)),
                    e.missing() > 0 ? "" : ", but not as one block",
                    where_ == Where::host ? hosts_next_step : next_step(kind)),
        e.requested, e.in_use, e.capacity);
  }
  change(kind, place, bytes);
  return entry;
}

void Ledger::give_back(const Entry& entry) noexcept {
  if (where_ == Where::host)
    device_.deallocate_on_host(entry.data, entry.bytes);
  else
    device_.deallocate(entry.data, entry.bytes);
  change(entry.kind, entry.place, -entry.bytes);
}

void Ledger::relabel(Entry& entry, Kind kind, Place place) {
  if (entry.kind == kind) return;
  // Taken from one kind before it is given to the other: relabelling is never a peak.
  change(entry.kind, entry.place, -entry.bytes);
  entry.kind = kind;
  entry.place = place;
  change(kind, entry.place, entry.bytes);
}

int64_t Ledger::current(Kind kind, Place place) const {
  int64_t bytes = 0;
  for (const Change& change : timeline_)
    if (change.kind == kind && change.place == place) bytes += change.bytes;
  return bytes;
}

void Ledger::reset_peaks() {
  sums_.peak = sums_.at_peak = sums_.current;
  sums_.peak_total = sums_.total;
  sums_.peak_in_layers = sums_.in_layers;
}

void Ledger::change(Kind kind, Place place, int64_t bytes) {
  Sums& s = sums_;
  int64_t& now = s.current[index(kind)];
  now += bytes;
  s.total += bytes;
  if (kind == Kind::activation || kind == Kind::statistics) {
    if (bytes > 0) s.kept += bytes;
    Held& held = s.held[static_cast<size_t>(place.part)];
    held.tensors += bytes > 0 ? 1 : -1;
    held.bytes += bytes;
  }
  if (now > s.peak[index(kind)]) s.peak[index(kind)] = now;
  if (kind == Kind::activation && place.layer >= 0) {
    s.in_layers += bytes;
    if (s.in_layers > s.peak_in_layers) s.peak_in_layers = s.in_layers;
  }
  if (s.total > s.peak_total) {
    s.peak_total = s.total;
    s.at_peak = s.current;
  }
  if (!recording_) return;
  // What a virtual device sends or reduces beside its passes may end long after them.
  const double time = device_.backed() ? device_.now() : device_.record(Stream::compute).time;
  timeline_.push_back({time, kind, place, bytes});
}

void Ledger::add(const Sums& changes) {
  Sums& s = sums_;
  // The highest moment of the changes is the first at which they were so high, as in change().
  if (s.total + changes.peak_total > s.peak_total) {
    s.peak_total = s.total + changes.peak_total;
    for (size_t k = 0; k < s.current.size(); ++k) s.at_peak[k] = s.current[k] + changes.at_peak[k];
  }
  s.total += changes.total;
  for (size_t k = 0; k < s.current.size(); ++k) {
    s.peak[k] = std::max(s.peak[k], s.current[k] + changes.peak[k]);
    s.current[k] += changes.current[k];
  }
  s.peak_in_layers = std::max(s.peak_in_layers, s.in_layers + changes.peak_in_layers);
  s.in_layers += changes.in_layers;
  s.kept += changes.kept;
  for (size_t i = 0; i < s.held.size(); ++i) {
    s.held[i].tensors += changes.held[i].tensors;
    s.held[i].bytes += changes.held[i].bytes;
  }
}

void Ledger::note_kept(const HeldPerPart& before) {
  if (kept_per_part_) return;
  kept_per_part_ = sums_.held;
  for (size_t i = 0; i < before.size(); ++i) {
    (*kept_per_part_)[i].tensors -= before[i].tensors;
    (*kept_per_part_)[i].bytes -= before[i].bytes;
  }
}

}  // namespace frugal::engine
