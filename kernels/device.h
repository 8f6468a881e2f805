#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device_work.h"

namespace frugal::kernels {

/// A queue of a device: work that is issued to it is done in order, and beside that of other
/// streams. Device::stream() gives those that a device does not have from the beginning.
struct Stream {
  uint8_t index = 0;

  static const Stream compute;
  /// Carries what modelled collectives move, and what the host asks for.
  static const Stream copy;
  auto operator<=>(const Stream&) const = default;
};
inline constexpr Stream Stream::compute{0};
inline constexpr Stream Stream::copy{1};
inline constexpr int most_streams = 24;

/// Share that the work of a stream has of its device beside what is computed.
enum class StreamUse : uint8_t {
  copies,      ///< None: copies go on beside it.
  messages,    ///< None, but they go first: other ranks wait for them.
  collectives  ///< Part of it, and they go first. A virtual device slows both.
};
/// A stream by name, which outlives the devices: "activations".
struct StreamSpec {
  std::string_view name;
  StreamUse use = StreamUse::copies;

  bool operator==(const StreamSpec&) const = default;
};

/// A point of a stream that another can wait for; opaque outside the device that made it.
struct Event {
  double time = 0;         ///< of a virtual device: when it is, in seconds
  uint64_t number = 0;     ///< of a virtual device's tape: which of its events, from 1 (Replay)
  void* handle = nullptr;  ///< of another device
  /// Stream of a virtual device's collectives. `time` is less what computation has delayed
  /// them by so far.
  std::optional<Stream> collective{};
};

class Replay;

/// Choices of libraries by the kind of a GPU; zeros where it is not described.
struct Libraries {
  int64_t cublas_workspace = 0;              ///< bytes that PyTorch gives a handle of cuBLAS's
  int64_t transformer_engine_workspace = 0;  ///< bytes that TransformerEngine gives its products
  double compute_capability = 0;             ///< 8, 9, 10
  int64_t multiprocessors = 0;
};

/// Streams that memory is taken for: an allocator that keeps what is given back has what one stream
/// gave back for no other.
enum class MemoryOf : uint8_t {
  compute,
  gathers,    ///< buffers in which weights that replicas divide arrive
  reductions  ///< sums over replicas, of which each has a part
};

/// Processor of a rank, with its memory. Not thread-safe: each rank has its own.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// "cpu", or "virtual:a100-selene".
  virtual std::string name() const = 0;
  /// True where memory holds values; false on the virtual device, where data is null and nothing
  /// may be read.
  virtual bool backed() const = 0;

  /// 64-byte aligned memory whose content is arbitrary. Throws OutOfMemory.
  virtual void* allocate(int64_t bytes) = 0;
  /// Memory of that use. A device that is not said to keep the uses apart takes them from one.
  virtual void* allocate_for(MemoryOf /*use*/, int64_t bytes) { return allocate(bytes); }
  virtual void deallocate(void* address, int64_t bytes) noexcept = 0;
  /// Memory of the host, 64-byte aligned and of arbitrary content, that a Transfer can reach
  /// without the host's help. Throws OutOfMemory.
  virtual void* allocate_on_host(int64_t bytes) = 0;
  virtual void deallocate_on_host(void* address, int64_t bytes) noexcept = 0;
  /// Bytes that the device holds for allocations: those in use, rounded up as it does, and what it
  /// keeps to hand out again. Of an allocator that is described, the most so far.
  virtual int64_t reserved() const = 0;
  /// True if that is more than the sizes of what was asked for: memory is there, or an allocator is
  /// described.
  virtual bool reserves() const { return backed(); }

  virtual Libraries libraries() const { return {}; }

  /// The stream of this name, which the first who asks makes. Throws std::logic_error beyond
  /// `most_streams`.
  Stream stream(const StreamSpec& spec) {
    const auto found = std::ranges::find(stream_names_, spec.name);
    const Stream stream{static_cast<uint8_t>(found - stream_names_.begin())};
    if (found != stream_names_.end()) return stream;
    if (stream.index == most_streams) throw std::logic_error("a device has too many streams");
    add_stream(stream, spec.use);
    stream_names_.push_back(spec.name);
    return stream;
  }
  std::string_view stream_name(Stream stream) const { return stream_names_.at(stream.index); }

  /// Issues an operation to a stream.
  void execute(const Operation& operation) { execute_on(Stream::compute, operation); }
  void execute_on(Stream stream, const Operation& operation) {
    work_.add(operation);
    if (before_) before_();
    if (seen_ && stream == Stream::compute)
      run_timed(operation, seen_);
    else
      run_on(stream, operation);
  }
  /// Calls this before each operation from now on: what the host has to do so that something else
  /// goes on meanwhile.
  void before_operations(std::function<void()> go_on) { before_ = std::move(go_on); }
  using OnOperation = std::function<void(const Operation&, double seconds)>;
  /// Says from now on how long each operation of the compute stream took. A processor waits before
  /// and after it. A GPU marks its stream there, and says all of them whenever it is synchronized;
  /// a virtual device does as a GPU. An empty function ends that; what was not said yet never is.
  virtual void time_operations(OnOperation seen) { seen_ = std::move(seen); }
  /// Seconds that a stream takes for what `issue` issues to it, by the stream's own clock where it
  /// has one. Waits for everything before and after it.
  virtual double seconds_on(Stream /*stream*/, const std::function<void()>& issue) {
    synchronize();
    const double begin = now();
    issue();
    synchronize();
    return now() - begin;
  }
  /// Keeps a stream busy for so many seconds, for work that is modelled and not done: the streams
  /// that wait for it are kept waiting too. `name` must outlive the device.
  virtual void occupy(Stream stream, double seconds, std::string_view name) = 0;

  virtual Event record(Stream stream) = 0;
  virtual void wait(Stream stream, const Event& event) = 0;
  /// Returns when everything issued has ended.
  virtual void synchronize() = 0;
  /// Seconds since some fixed moment: the machine's steady clock, or the virtual machine's, where
  /// it is the time at which everything issued so far has ended.
  virtual double now() = 0;
  /// A stage's pass is about to be issued, and has been.
  virtual void begin_pass(bool /*forward*/) {}
  virtual void end_pass() {}
  /// Repeats stretches of what the device was asked for; null where memory holds values.
  virtual Replay* replay() { return nullptr; }

  /// Contiguous views; host memory of view.bytes(). Waits for what is computed. Needs backing.
  virtual void copy_to_host(void* host, const View& from) = 0;
  virtual void copy_from_host(const View& to, const void* host) = 0;

  /// All so far. A processor calls for nothing; a virtual device launches what its software is
  /// described to, and has no values to copy or to wait for.
  const DeviceWork& work() const { return work_; }

 protected:
  /// Makes the stream for what stream() says.
  virtual void add_stream(Stream /*stream*/, StreamUse /*use*/) {}
  /// Issues an operation of execute_on().
  virtual void run_on(Stream stream, const Operation& operation) = 0;
  /// Issues an operation to the compute stream, and tells `seen` how long it took, now or later.
  virtual void run_timed(const Operation& operation, const OnOperation& seen) {
    synchronize();
    const double begin = now();
    run_on(Stream::compute, operation);
    synchronize();
    seen(operation, now() - begin);
  }

  DeviceWork work_;

 private:
  std::vector<std::string_view> stream_names_ = {"compute", "copy"};
  std::function<void()> before_;
  OnOperation seen_;
};

}  // namespace frugal::kernels
