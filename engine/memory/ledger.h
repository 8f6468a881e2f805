#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/namespace.h"
#include "kernels/device.h"

namespace frugal::engine {

/// Purpose of memory. `statistics` are the small buffers that the papers neglect (means and
/// deviations of layer norms, of softmaxes over the vocabulary); they are shown apart.
enum class Kind : uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,
  statistics,
  workspace,
  communication
};
inline constexpr int kind_count = 7;
constexpr Names names_of(Kind) {
  return {"parameter",  "gradient",  "optimizer",    "activation",
          "statistics", "workspace", "communication"};
}

using BytesPerKind = std::array<int64_t, kind_count>;

/// Module that keeps something. `layer` is for a layer's own, besides its modules, `model` for the
/// model's own, besides its layers.
enum class Part : uint8_t { model, embedding, layer, norm, attention, mlp, head };
inline constexpr int part_count = 7;
constexpr Names names_of(Part) {
  return {"model", "embedding", "layer", "norm", "attention", "mlp", "head"};
}

/// Number of tensors that a kind of module holds, and their bytes together.
struct Held {
  int64_t tensors = 0, bytes = 0;
  auto operator<=>(const Held&) const = default;
};
using HeldPerPart = std::array<Held, part_count>;

/// Part of a run that memory belongs to; −1 where there is none.
struct Place {
  int layer = -1;
  int microbatch = -1;
  Part part = Part::model;
  auto operator<=>(const Place&) const = default;
};

/// The owner of every byte a rank uses: takes memory from the device, knows what it is for and
/// where, and remembers peaks. Sizes are as requested, in bytes. Not thread-safe: one per rank.
class Ledger {
 public:
  struct Entry {
    void* data = nullptr;
    int64_t bytes = 0;
    Kind kind = Kind::workspace;
    Place place;
  };
  /// One change of the memory in use.
  struct Change {
    double time;  ///< seconds on the device's clock; a virtual one's of its compute stream
    Kind kind;
    Place place;
    int64_t bytes;  ///< negative when given back
  };

  /// Memory that is counted: the device's or the host's.
  enum class Where : uint8_t { device, host };

  explicit Ledger(Device& device, Where where = Where::device) : device_(device), where_(where) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Throws OutOfMemory, naming kind, place and the bytes that were missing.
  Entry take(int64_t bytes, Kind kind, Place place = {}, MemoryOf use = MemoryOf::compute);
  void give_back(const Entry& entry) noexcept;
  /// Address of its values; null on a device that has none, whatever it calls the entry.
  void* values_at(const Entry& entry) const { return device_.backed() ? entry.data : nullptr; }
  bool has_values() const { return device_.backed(); }
  /// Counts the memory for something else from now on, and for this place.
  void relabel(Entry& entry, Kind kind, Place place);

  int64_t current(Kind kind) const { return sums_.current[index(kind)]; }
  int64_t current() const { return sums_.total; }
  int64_t peak(Kind kind) const { return sums_.peak[index(kind)]; }
  int64_t peak() const { return sums_.peak_total; }
  const BytesPerKind& current_per_kind() const { return sums_.current; }
  const BytesPerKind& peak_per_kind() const { return sums_.peak; }
  /// The most that the activations of all layers were together; what is kept outside the layers is
  /// left out.
  int64_t peak_in_layers() const { return sums_.peak_in_layers; }
  /// Bytes of each kind at the moment of the total peak.
  const BytesPerKind& at_peak() const { return sums_.at_peak; }
  /// All bytes that were ever kept from a forward to a backward pass: activations and statistics.
  int64_t kept() const { return sums_.kept; }
  /// Activations and statistics that there are now.
  const HeldPerPart& held_per_part() const { return sums_.held; }
  /// Notes what of these a pass has added that began with `before`. The first note stays.
  void note_kept(const HeldPerPart& before);
  /// Tensors kept per module; none if no pass has been noted.
  const std::optional<HeldPerPart>& kept_per_part() const { return kept_per_part_; }
  /// Bytes of a kind now in use at a place, of those taken since a timeline is recorded.
  int64_t current(Kind kind, Place place) const;
  /// Peaks start again from what is in use now.
  void reset_peaks();

  void record_timeline(bool on) { recording_ = on; }
  bool records_timeline() const { return recording_; }
  const std::vector<Change>& timeline() const { return timeline_; }

  /// All that the ledger knows but its timeline. Of a ledger that begins with nothing it is what
  /// changed since then, and the peaks are how far that went meanwhile.
  struct Sums {
    BytesPerKind current{}, peak{}, at_peak{};
    int64_t total = 0, peak_total = 0;
    int64_t in_layers = 0, peak_in_layers = 0;  ///< of activations
    int64_t kept = 0;                           ///< Ledger::kept()
    HeldPerPart held{};                         ///< of activations and statistics
  };
  /// The ledger goes on from there; returns what it knew.
  Sums exchange(const Sums& sums) { return std::exchange(sums_, sums); }
  /// Adds sums, as if what they are of had happened again. The device is not told.
  void add(const Sums& changes);

 private:
  static size_t index(Kind kind) { return static_cast<size_t>(kind); }
  void change(Kind kind, Place place, int64_t bytes);

  Device& device_;
  const Where where_;
  Sums sums_;
  std::optional<HeldPerPart> kept_per_part_;
  bool recording_ = false;
  std::vector<Change> timeline_;
};

}  // namespace frugal::engine
