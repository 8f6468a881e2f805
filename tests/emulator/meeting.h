#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/types.h"
#include "tests/emulator/streams.h"

/// What several emulated GPUs do together: collectives and messages. Used within calls (streams.h).
namespace emulator {

/// What all of a communicator do, or one with another.
enum class Joint : uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, message };

/// What one GPU brings to it: arguments of NCCL's call.
struct Part {
  Joint joint;
  const void* from;  ///< null for the receiver of a message
  void* to;          ///< null for the sender
  int64_t count;
  frugal::kernels::DType type;
  int root = 0;
};

/// The ranks of a communicator, on GPUs of their own.
class Clique : public std::enable_shared_from_this<Clique> {
 public:
  /// A message's ranks, from and to; or everybody.
  using Between = std::pair<int, int>;
  static constexpr Between everybody{-1, -1};
  struct Step {
    Between between;
    size_t place;  ///< the rank; of a message 0, the sender, or 1
    Part part;
  };

  explicit Clique(int size) : gpus_(static_cast<size_t>(size), absent) {}

  int size() const { return static_cast<int>(gpus_.size()); }
  /// False where another rank is on that GPU, or this rank is there already.
  bool join(int rank, int gpu);
  bool complete() const;
  /// Notes that a rank has called for these steps.
  void call(const std::vector<Step>& steps);
  /// Whether they can be issued: the first message from one rank to another connects the two, for
  /// which both must have called for it.
  bool connected(const std::vector<Step>& steps) const;
  /// Issues these steps of a rank to its stream, as one: it goes on when all have been done.
  void issue(cudaStream_t stream, const std::vector<Step>& steps);

  /// Ends what was issued, and what will be, undone.
  void abort();
  void leave() { ++left_; }
  /// Whether every rank that had joined has left.
  bool left() const;

 private:
  static constexpr int absent = -1;
  struct Meeting {
    std::vector<std::optional<Part>> parts;  ///< of those whose streams have come to it
    std::shared_ptr<Moment> over = std::make_shared<Moment>();
  };
  using Key = std::pair<Between, uint64_t>;

  void arrive(const Key& key, size_t place, const Part& part);
  void perform(const std::vector<std::optional<Part>>& parts) const;

  std::vector<int> gpus_;  // by rank
  std::map<Key, Meeting> meetings_;
  std::set<std::pair<Between, size_t>> called_;            // messages, by place
  std::map<std::pair<Between, size_t>, uint64_t> issued_;  // so many, by place
  int left_ = 0;
  bool aborted_ = false;
};

}  // namespace emulator
