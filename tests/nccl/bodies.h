#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "tests/engine/comm/group.h"
#include "tests/nccl/cluster.h"

/// Uses of collectives, for comparing a way to communicate with threads of the CPU.
namespace frugal::testing {

template <class T>
struct CollectiveBody {
  using Values = std::vector<T>;

  const char* name;
  bool sums;  ///< the order of additions decides what comes out
  /// Returns what a rank has afterwards, which had these values; each has a part for every rank.
  std::function<Values(Rank&, Communicator&, const Values&)> run;
};

template <class T>
Tensor blank(Rank& rank, size_t size) {
  return rank.allocate(dtype_of<T>, {static_cast<int64_t>(size)});
}

/// `a` and `b` by turns.
template <class T>
std::vector<T> mixed(std::vector<T> a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); i += 2) a[i] = b[i];
  return a;
}

template <class T>
std::vector<T> all_reduced(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor data = write(rank, values);
  for (int i = 0; i < 2; ++i) group.all_reduce(data).wait();
  return read<T>(rank, data);
}

template <class T>
std::vector<T> scattered(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor all = write(rank, values),
               shard = blank<T>(rank, values.size() / static_cast<size_t>(group.size()));
  group.reduce_scatter(all, shard).wait();
  group.all_gather(shard, all).wait();
  return read<T>(rank, all);
}

template <class T>
std::vector<T> gathered(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor all = write(rank, values);
  group.all_gather(part_of(all, group.rank(), group.size()), all).wait();
  return read<T>(rank, all);
}

template <class T>
std::vector<T> exchanged(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor data = write(rank, values), exchanged = blank<T>(rank, values.size()),
               shifted = blank<T>(rank, values.size());
  group.all_to_all(data, exchanged).wait();
  group.shift(exchanged, shifted).wait();
  group.broadcast(data, group.size() - 1).wait();
  return mixed(read<T>(rank, data), read<T>(rank, shifted));
}

/// Several at once, waited for in another order.
template <class T>
std::vector<T> several_under_way(Rank& rank, Communicator& group, const std::vector<T>& values) {
  std::vector<Tensor> data;
  std::vector<Pending> pending;
  for (int i = 0; i < 4; ++i) data.push_back(write(rank, values));
  for (const Tensor& each : data) pending.push_back(group.all_reduce(each));
  for (const size_t i : {3, 0, 2, 1}) pending[i].wait();
  const auto half = mixed(read<T>(rank, data[0]), read<T>(rank, data[1]));
  return mixed(half, mixed(read<T>(rank, data[2]), read<T>(rank, data[3])));
}

/// Passes messages from the first rank to the last, two at a time: they arrive in the order in
/// which they were sent.
template <class T>
std::vector<T> passed_on(Rank& rank, Communicator& group, const std::vector<T>& values) {
  const Tensor first = write(rank, values),
               second = write(rank, std::vector<T>(values.rbegin(), values.rend()));
  const int own = group.rank();
  for (const Tensor& each : {first, second})
    if (own > 0) group.receive(each, own - 1).wait();
  for (const Tensor& each : {second, first})
    if (own + 1 < group.size()) group.send(each, own + 1).wait();
  return mixed(read<T>(rank, first), read<T>(rank, second));
}

template <class T>
std::vector<CollectiveBody<T>> collective_bodies() {
  return {{"all-reduce", true, all_reduced<T>},
          {"reduce-scatter and all-gather", true, scattered<T>},
          {"all-gather", false, gathered<T>},
          {"all-to-all, shift and broadcast", false, exchanged<T>},
          {"several under way", true, several_under_way<T>},
          {"messages", false, passed_on<T>}};
}

/// Replicas, whose group `data` communicates.
inline RunConfig of_replicas(int ranks) {
  RunConfig config = small_gpt();
  config.data_parallel = ranks;
  return config;
}

/// Values that each rank of a cluster of_replicas() that is here has after a body, of `count`
/// values for each rank, or of their magnitudes.
template <class T>
std::vector<std::vector<T>> results(Cluster& cluster, const CollectiveBody<T>& body, int64_t count,
                                    bool absolute = false) {
  std::vector<std::vector<T>> all(static_cast<size_t>(cluster.local_ranks()));
  cluster.run([&](Rank& rank) {
    Communicator& group = rank.groups.data;
    auto values =
        random_values<T>(count * group.size(), static_cast<uint64_t>(1000 + group.rank()));
    if (absolute)
      for (T& value : values) value = static_cast<T>(std::abs(static_cast<float>(value)));
    all[static_cast<size_t>(rank.index)] = body.run(rank, group, values);
  });
  return all;
}

}  // namespace frugal::testing
