#include "engine/comm/local.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "engine/comm/communicator.h"
#include "engine/comm/rendezvous.h"

namespace frugal::engine {
namespace {

using Calls = std::vector<Rendezvous::Call>;

void copy(const View& from, const View& to) {
  if (from.data == nullptr || to.data == nullptr || from.data == to.data) return;
  std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
}

std::vector<void*> addresses(const Calls& calls) {
  std::vector<void*> result;
  result.reserve(calls.size());
  for (const auto& call : calls) result.push_back(call.in.data);
  return result;
}

/// Rank r sums chunk r of everybody's data and writes the sum to everybody's.
void all_reduce_part(int rank, const Calls& calls) {
  const View& data = calls[0].in;
  const auto ranks = static_cast<int>(calls.size());
  const int64_t begin = data.size() * rank / ranks;
  const int64_t end = data.size() * (rank + 1) / ranks;
  const auto all = addresses(calls);
  reduce_into(data.type, all.data(), ranks, begin, end - begin, all.data(), ranks, begin);
}

void reduce_scatter_part(int rank, const Calls& calls) {
  const View& shard = calls[static_cast<size_t>(rank)].out;
  const auto all = addresses(calls);
  reduce_into(shard.type, all.data(), static_cast<int>(calls.size()), shard.size() * rank,
              shard.size(), &shard.data, 1, 0);
}

void all_gather_part(int rank, const Calls& calls) {
  const auto ranks = static_cast<int64_t>(calls.size());
  const View& all = calls[static_cast<size_t>(rank)].out;
  for (int64_t j = 0; j < ranks; ++j)
    copy(calls[static_cast<size_t>(j)].in, part_of(all, j, ranks));
}

void all_to_all_part(int rank, const Calls& calls) {
  const auto ranks = static_cast<int64_t>(calls.size());
  const View& to = calls[static_cast<size_t>(rank)].out;
  for (int64_t j = 0; j < ranks; ++j)
    copy(part_of(calls[static_cast<size_t>(j)].in, rank, ranks), part_of(to, j, ranks));
}

void broadcast_part(int rank, const Calls& calls) {
  const auto& own = calls[static_cast<size_t>(rank)];
  copy(calls[static_cast<size_t>(own.root)].in, own.in);
}

class CollectiveWork final : public RendezvousWork {
 public:
  CollectiveWork(Rendezvous& rendezvous, int rank, const Rendezvous::Call& call)
      : RendezvousWork(rendezvous, rank), collective_(rendezvous.start(rank, call)) {}

 private:
  void finish() override { rendezvous_.finish(rank_, *collective_); }
  const std::shared_ptr<Rendezvous::Collective> collective_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(Rendezvous& rendezvous, int rank, int size)
      : rendezvous_(rendezvous), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Pending all_reduce(const View& data) override {
    contract::summed("all-reduce", data);
    if (size_ == 1) return {};  // a sum of one is what it was
    return start({"all-reduce", data, data, 0, all_reduce_part});
  }
  Pending all_gather(const View& shard, const View& all) override {
    contract::gathered("all-gather", shard, all, size_);
    return start({"all-gather", shard, all, 0, all_gather_part});
  }
  Pending reduce_scatter(const View& all, const View& shard) override {
    contract::summed("reduce-scatter", all);
    contract::gathered("reduce-scatter", shard, all, size_);
    return start({"reduce-scatter", all, shard, 0, reduce_scatter_part});
  }
  Pending all_to_all(const View& from, const View& to) override {
    contract::exchanged(from, to, size_);
    return start({"all-to-all", from, to, 0, all_to_all_part});
  }
  Pending broadcast(const View& data, int root) override {
    contract::moved("broadcast", data);
    contract::peer("broadcast", root, size_);
    return start({"broadcast", data, data, root, broadcast_part});
  }
  Pending send(const View& data, int to) override {
    contract::moved("send", data);
    contract::peer("send", to, size_);
    rendezvous_.post(rank_, to, data);
    return {};
  }
  Pending receive(const View& data, int from) override {
    contract::moved("receive", data);
    contract::peer("receive", from, size_);
    return Pending(std::make_unique<ReceiveWork>(rendezvous_, rank_, from, data));
  }
  void barrier() override {
    start({"barrier", {}, {}, 0, [](int, const Calls&) {}}).wait();
  }
  void abort(const std::string& reason) noexcept override { rendezvous_.fail(reason); }

 private:
  Pending start(const Rendezvous::Call& call) {
    return Pending(std::make_unique<CollectiveWork>(rendezvous_, rank_, call));
  }

  Rendezvous& rendezvous_;
  const int rank_, size_;
};

}  // namespace

LocalGroup::LocalGroup(int size, double deadline, std::vector<std::string> names, Parts parts)
    : rendezvous_(std::make_unique<Rendezvous>(size, deadline, std::move(names), parts)) {
  for (int r = 0; r < size; ++r)
    communicators_.push_back(std::make_unique<LocalCommunicator>(*rendezvous_, r, size));
}

LocalGroup::~LocalGroup() = default;

void LocalGroup::reset() { rendezvous_->reset(); }
void LocalGroup::check() { rendezvous_->check(); }

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
