#include "engine/comm/local.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "engine/comm/communicator.h"
#include "engine/comm/rendezvous.h"

namespace frugal::engine {
namespace {

using Calls = std::vector<Call>;

void copy(const View& from, const View& to) {
  if (from.data == nullptr || to.data == nullptr || from.data == to.data) return;
  std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
}

std::vector<void*> addresses(const Calls& calls) {
  std::vector<void*> result;
  result.reserve(calls.size());
  for (const auto& call : calls) result.push_back(call.from.data);
  return result;
}

/// Rank r sums chunk r of everybody's data and writes the sum to everybody's.
void all_reduce_part(int rank, const Calls& calls) {
  const View& data = calls[0].from;
  const auto ranks = static_cast<int>(calls.size());
  const int64_t begin = data.size() * rank / ranks;
  const int64_t end = data.size() * (rank + 1) / ranks;
  const auto all = addresses(calls);
  reduce_into(data.type, all.data(), ranks, begin, end - begin, all.data(), ranks, begin);
}

void reduce_scatter_part(int rank, const Calls& calls) {
  const View& shard = calls[static_cast<size_t>(rank)].to;
  const auto all = addresses(calls);
  reduce_into(shard.type, all.data(), static_cast<int>(calls.size()), shard.size() * rank,
              shard.size(), &shard.data, 1, 0);
}

void all_gather_part(int rank, const Calls& calls) {
  const auto ranks = static_cast<int64_t>(calls.size());
  const View& all = calls[static_cast<size_t>(rank)].to;
  for (int64_t j = 0; j < ranks; ++j)
    copy(calls[static_cast<size_t>(j)].from, part_of(all, j, ranks));
}

void all_to_all_part(int rank, const Calls& calls) {
  const auto ranks = static_cast<int64_t>(calls.size());
  const View& to = calls[static_cast<size_t>(rank)].to;
  for (int64_t j = 0; j < ranks; ++j)
    copy(part_of(calls[static_cast<size_t>(j)].from, rank, ranks), part_of(to, j, ranks));
}

void broadcast_part(int rank, const Calls& calls) {
  const auto& own = calls[static_cast<size_t>(rank)];
  copy(calls[static_cast<size_t>(own.peer)].from, own.to);
}

void shift_part(int rank, const Calls& calls) {
  const size_t own = static_cast<size_t>(rank), ranks = calls.size();
  copy(calls[(own + ranks - 1) % ranks].from, calls[own].to);
}

void do_part_in_memory(int rank, const Calls& calls) {
  switch (calls.front().kind) {
    case Call::Kind::all_reduce:
      return all_reduce_part(rank, calls);
    case Call::Kind::all_gather:
      return all_gather_part(rank, calls);
    case Call::Kind::reduce_scatter:
      return reduce_scatter_part(rank, calls);
    case Call::Kind::all_to_all:
      return all_to_all_part(rank, calls);
    case Call::Kind::broadcast:
      return broadcast_part(rank, calls);
    case Call::Kind::shift:
      return shift_part(rank, calls);
    default:
      return;  // a barrier
  }
}

class CollectiveWork final : public RendezvousWork {
 public:
  CollectiveWork(Rendezvous& rendezvous, int rank, const Call& call)
      : RendezvousWork(rendezvous, rank), collective_(rendezvous.start(rank, call)) {}

 private:
  void finish() override { rendezvous_.finish(rank_, *collective_); }
  const std::shared_ptr<Rendezvous::Collective> collective_;
};

/// A message that is to be received.
class ReceiveWork final : public RendezvousWork {
 public:
  ReceiveWork(Rendezvous& rendezvous, int rank, int from, const View& data)
      : RendezvousWork(rendezvous, rank),
        from_(from),
        number_(rendezvous.expect(from, rank)),
        data_(data) {}

 private:
  void finish() override { rendezvous_.take(from_, rank_, number_, data_); }

  const int from_;
  const uint64_t number_;
  const View data_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(Rendezvous& rendezvous, int rank, int size)
      : rendezvous_(rendezvous), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { meet({}).wait(); }
  void abort(const std::string& reason) noexcept override { rendezvous_.fail(reason); }

 private:
  Pending begin(const Call& call) override {
    if (call.kind == Call::Kind::receive)
      return Pending(std::make_unique<ReceiveWork>(rendezvous_, rank_, call.peer, call.to));
    if (call.kind == Call::Kind::send) rendezvous_.post(rank_, call.peer, call.from);
    const bool is_sum_of_one = size_ == 1 && call.kind == Call::Kind::all_reduce;
    return call.kind == Call::Kind::send || is_sum_of_one ? Pending() : meet(call);
  }
  Pending meet(const Call& call) {
    return Pending(std::make_unique<CollectiveWork>(rendezvous_, rank_, call));
  }

  Rendezvous& rendezvous_;
  const int rank_, size_;
};

}  // namespace

LocalGroup::LocalGroup(int size, double deadline, std::vector<std::string> names, Parts parts)
    : rendezvous_(size, deadline, std::move(names), do_part_in_memory, parts) {
  for (int r = 0; r < size; ++r)
    communicators_.push_back(std::make_unique<LocalCommunicator>(rendezvous_, r, size));
}

namespace {

/// Elements summed before any is written: the sums stay in the first-level cache.
constexpr int64_t block = 2048;

template <class T>
void reduce(const void* const* sources, int source_count, int64_t begin, int64_t count,
            void* const* targets, int target_count, int64_t target_begin) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::array<A, block> sum;
  for (int64_t done = 0; done < count; done += block) {
    const int64_t n = std::min(block, count - done);
    A* const acc = sum.data();
    for (int s = 0; s < source_count; ++s) {
      const T* const x = static_cast<const T*>(sources[s]) + begin + done;
      if (s == 0) {
        for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(x[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<A>(x[i]);
      }
    }
    for (int t = 0; t < target_count; ++t) {
      T* const y = static_cast<T*>(targets[t]) + target_begin + done;
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(acc[i]);
    }
  }
}

}  // namespace

void reduce_into(DType type, const void* const* sources, int source_count, int64_t begin,
                 int64_t count, void* const* targets, int target_count, int64_t target_begin) {
  const auto run = [&](auto element) {
    reduce<decltype(element)>(sources, source_count, begin, count, targets, target_count,
                              target_begin);
  };
  switch (type) {
    case DType::f32:
      return run(float{});
    case DType::bf16:
      return run(Bf16{});
    case DType::f64:
      return run(double{});
    default:
      throw std::logic_error("reduce_into: type cannot be summed");
  }
}

}  // namespace frugal::engine
