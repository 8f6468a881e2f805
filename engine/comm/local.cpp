#include "engine/comm/local.h"

#include <cstring>

#include "engine/comm/contract.h"
#include "engine/comm/part_of.h"
#include "engine/comm/reduce.h"
#include "engine/comm/rendezvous_work.h"

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

}  // namespace frugal::engine
