#include "engine/memory/ledger.h"

#include <fmt/format.h>

#include "kernels/support/error.h"

namespace frugal {

std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, kind_count> names = {
      "parameter",  "gradient",  "optimizer",    "activation",
      "statistics", "workspace", "communication"};
  return names[static_cast<size_t>(kind)];
}

namespace {

/// What makes less memory of a kind be needed.
const char* next_step(Kind kind) {
  if (kind == Kind::parameter || kind == Kind::gradient || kind == Kind::optimizer)
    return "a larger tensor-parallel size, or a smaller model";
  return "recomputation, a larger tensor-parallel size with sequence parallelism, or a smaller "
         "microbatch";
}

constexpr const char* hosts_next_step =
    "more ranks that share what is offloaded, a shorter sequence, or no offload";

}  // namespace

Ledger::Entry Ledger::take(int64_t bytes, Kind kind) {
  Entry entry{nullptr, bytes, kind, place_};
  try {
    entry.data = where_ == Where::host ? device_.allocate_on_host(bytes) : device_.allocate(bytes);
  } catch (const OutOfMemory& e) {
    throw OutOfMemory(
        fmt::format(
            "{}{}: {} bytes of {} {} did not fit: {} bytes missing of a capacity of {}; try {}",
            device_.name(), where_ == Where::host ? "'s host" : "", bytes, name_of(kind),
            place_.layer < 0 ? "outside the layers" : fmt::format("for layer {}", place_.layer),
            e.missing(), e.capacity, where_ == Where::host ? hosts_next_step : next_step(kind)),
        e.requested, e.in_use, e.capacity);
  }
  change(kind, place_, bytes);
  return entry;
}

void Ledger::give_back(const Entry& entry) noexcept {
  if (where_ == Where::host)
    device_.deallocate_on_host(entry.data, entry.bytes);
  else
    device_.deallocate(entry.data, entry.bytes);
  change(entry.kind, entry.place, -entry.bytes);
}

void Ledger::relabel(Entry& entry, Kind kind) {
  if (entry.kind == kind) return;
  // Taken from one kind before it is given to the other: relabelling is never a peak.
  change(entry.kind, entry.place, -entry.bytes);
  entry.kind = kind;
  entry.place = place_;
  change(kind, entry.place, entry.bytes);
}

int64_t Ledger::current(Kind kind, Place place) const {
  const auto found = per_place_.find({kind, place});
  return found == per_place_.end() ? 0 : found->second;
}

void Ledger::reset_peaks() {
  peak_ = at_peak_ = current_;
  peak_total_ = total_;
  peak_in_layers_ = in_layers_;
}

void Ledger::change(Kind kind, Place place, int64_t bytes) {
  int64_t& now = current_[index(kind)];
  now += bytes;
  total_ += bytes;
  per_place_[{kind, place}] += bytes;
  if (now > peak_[index(kind)]) peak_[index(kind)] = now;
  if (kind == Kind::activation && place.layer >= 0) {
    in_layers_ += bytes;
    if (in_layers_ > peak_in_layers_) peak_in_layers_ = in_layers_;
  }
  if (total_ > peak_total_) {
    peak_total_ = total_;
    at_peak_ = current_;
  }
  if (!recording_) return;
  // What a virtual device sends or reduces beside its passes may end long after them.
  const double time = device_.backed() ? device_.now() : device_.record(Stream::compute).time;
  timeline_.push_back({time, kind, place, bytes});
}

}  // namespace frugal
