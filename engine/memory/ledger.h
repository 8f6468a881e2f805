#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/device.h"

namespace frugal {

/// What memory is for. `statistics` are the small buffers that the papers neglect (means and
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
std::string_view name_of(Kind kind);

using BytesPerKind = std::array<int64_t, kind_count>;

/// Which part of a run memory belongs to; −1 where there is none.
struct Place {
  int layer = -1;
  int microbatch = -1;
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

  /// Whose memory it is.
  enum class Where : uint8_t { device, host };

  explicit Ledger(Device& device, Where where = Where::device) : device_(device), where_(where) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Throws OutOfMemory, naming kind, place and the bytes that were missing.
  Entry take(int64_t bytes, Kind kind);
  void give_back(const Entry& entry) noexcept;
  /// The same memory is for something else from now on, and belongs to the place that says so.
  void relabel(Entry& entry, Kind kind);

  int64_t current(Kind kind) const { return current_[index(kind)]; }
  int64_t current() const { return total_; }
  int64_t peak(Kind kind) const { return peak_[index(kind)]; }
  int64_t peak() const { return peak_total_; }
  const BytesPerKind& current_per_kind() const { return current_; }
  const BytesPerKind& peak_per_kind() const { return peak_; }
  /// The most that the activations of all layers were together; what is kept outside the layers is
  /// left out.
  int64_t peak_in_layers() const { return peak_in_layers_; }
  /// What each kind held at the moment of the total peak.
  const BytesPerKind& at_peak() const { return at_peak_; }
  /// Bytes of a kind now in use at a place.
  int64_t current(Kind kind, Place place) const;
  /// Peaks start again from what is in use now.
  void reset_peaks();

  void record_timeline(bool on) { recording_ = on; }
  const std::vector<Change>& timeline() const { return timeline_; }

  /// New memory belongs to this place until the scope ends.
  class Scope {
   public:
    Scope(Ledger& ledger, Place place) : ledger_(ledger), before_(ledger.place_) {
      ledger.place_ = place;
    }
    ~Scope() { ledger_.place_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ledger& ledger_;
    Place before_;
  };
  Place place() const { return place_; }

 private:
  static size_t index(Kind kind) { return static_cast<size_t>(kind); }
  void change(Kind kind, Place place, int64_t bytes);

  Device& device_;
  const Where where_;
  Place place_;
  BytesPerKind current_{}, peak_{}, at_peak_{};
  int64_t total_ = 0, peak_total_ = 0;
  int64_t in_layers_ = 0, peak_in_layers_ = 0;  // of activations
  std::map<std::pair<Kind, Place>, int64_t> per_place_;
  bool recording_ = false;
  std::vector<Change> timeline_;
};

}  // namespace frugal
