#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/types.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"

/// Collectives and messages of several emulated GPUs, of the threads of a process or
/// of processes that see each other's files. Used within calls (streams.h).
namespace emulator {

/// Kind of work that all of a communicator do, or one with another.
enum class Joint : uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, message };

/// Part of one GPU in it: arguments of NCCL's call.
struct Part {
  Joint joint;
  const void* from;  ///< null for the receiver of a message
  void* to;          ///< null for the sender
  int64_t count;
  frugal::kernels::DType type;
  int root = 0;
};

/// One rank of a communicator, on a GPU of its own or on a shared one. All of them share a file, by
/// whose name they find each other: each writes there what it brings when its stream has come to
/// it, and takes what is its own when all have; its stream goes on when all have taken theirs. Its
/// kernel begins when the GPU has places for all its blocks, and has them until then.
class Member : public std::enable_shared_from_this<Member> {
 public:
  /// A message's ranks, from and to; or everybody.
  using Between = std::pair<int, int>;
  static constexpr Between everybody{-1, -1};
  struct Step {
    Between between;
    int place;  ///< the rank; of a message 0, the sender, or 1
    Part part;
  };

  /// `blocks` are those of each kernel.
  Member(const std::string& file, int rank, int size, int gpu, int blocks);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int size() const { return size_; }
  /// False where another rank is on that GPU, which is allowed if NCCL_MULTI_RANK_GPU_ENABLE is 1,
  /// or this rank is there already, or another number of ranks was said.
  bool join();
  bool complete() const;
  /// True if a process of the others' has ended before it has left.
  bool lost() const;
  /// Notes that this rank has called for these steps.
  void call(const std::vector<Step>& steps);
  /// True if they can be issued: the first message from one rank to another connects the two, for
  /// which both must have called for it.
  bool connected(const std::vector<Step>& steps) const;
  /// Issues these steps to its stream, as one: it goes on when all have been done.
  void issue(cudaStream_t stream, const std::vector<Step>& steps);

  /// Notes that this rank is to be finalized.
  void finalize();
  /// True if that is so of all, and all that this one has issued is over.
  bool finalized() const;
  /// Ends what this rank has issued, and what it will, undone.
  void abort() { aborted_ = true; }
  void leave();
  /// True if every rank of this process that had joined has left: they end together.
  bool left() const;

 private:
  struct Slot;
  struct Shared;
  class Kernel;
  Slot& slot(Between between, int place) const;
  std::vector<Slot*> slots(Between between) const;
  void bring(const Step& step, uint64_t number) const;
  bool over(const Step& step, uint64_t number) const;
  static void check_same(const std::vector<Slot*>& all);
  void take(const Step& step) const;
  void read(const Step& step, int place, int64_t first, int64_t count, void* to) const;

  const std::string name_;
  const int rank_, size_, gpu_, blocks_;
  int file_ = -1;
  Shared* shared_ = nullptr;
  std::map<std::pair<Between, int>, uint64_t> issued_;  // so many, by place
  int under_way_ = 0;                                   // issued and not over
  bool aborted_ = false;
};

}  // namespace emulator
