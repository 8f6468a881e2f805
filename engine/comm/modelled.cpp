#include "engine/comm/modelled.h"

#include <fmt/format.h>

#include <stdexcept>

#include "engine/comm/communicator.h"

namespace frugal::engine {
namespace {

/// A view of the same memory as numbers, which operations work on.
View numbers(const View& view) {
  if (view.type != DType::i32 && view.type != DType::u8) return view.flat();
  if (view.bytes() % size_of(DType::f32) != 0)
    throw std::invalid_argument(
        fmt::format("{} {} are not a multiple of 4 bytes", view.size(), name_of(view.type)));
  return {view.data, DType::f32, {view.bytes() / size_of(DType::f32)}};
}

}  // namespace

template <class Move>
Pending ModelledCommunicator::start(std::string_view name, double seconds, Move move) {
  const bool alone = group_.size == 1;
  if (alone && !device_.backed()) return {};
  const Event ready = device_.record(Stream::compute);
  device_.wait(stream_, ready);
  // First, so that on a cpu device the time begins to pass before the copies take theirs.
  if (!alone) device_.occupy(stream_, seconds, name);
  charged_ += seconds;
  if (device_.backed()) {
    device_.wait(Stream::copy, ready);
    move();
    device_.wait(stream_, device_.record(Stream::copy));
  }
  return Pending(std::make_unique<ModelledWork>(device_, device_.record(stream_)));
}

Pending ModelledCommunicator::start(std::string_view name, double seconds) {
  return start(name, seconds, [] {});
}

void ModelledCommunicator::copy(const View& from, const View& to) {
  if (from.data != to.data) device_.execute_on(Stream::copy, Convert{numbers(from), numbers(to)});
}

void ModelledCommunicator::clear(const View& to) {
  device_.execute_on(Stream::copy, Fill{numbers(to), 0});
}

void ModelledCommunicator::make_up(const View& to) {
  if (to.type != DType::f32 && to.type != DType::bf16) return clear(to);
  device_.execute_on(Stream::copy, RandomNormal{to.flat(), 1, {}, {}});
}

Pending ModelledCommunicator::all_reduce(const View& data) {
  contract::summed("all-reduce", data);
  return start("all-reduce", costs_.all_reduce(group_, charged_bytes(data)));
}

Pending ModelledCommunicator::all_gather(const View& shard, const View& all) {
  contract::gathered("all-gather", shard, all, size());
  return start("all-gather", costs_.all_gather(group_, charged_bytes(all)), [&] {
    for (int j = 0; j < size(); ++j) copy(shard, part_of(all, j, size()));
  });
}

Pending ModelledCommunicator::reduce_scatter(const View& all, const View& shard) {
  contract::summed("reduce-scatter", all);
  contract::gathered("reduce-scatter", shard, all, size());
  return start("reduce-scatter", costs_.reduce_scatter(group_, charged_bytes(all)),
               [&] { copy(part_of(all, rank_, size()), shard); });
}

Pending ModelledCommunicator::all_to_all(const View& from, const View& to) {
  contract::exchanged(from, to, size());
  return start("all-to-all", costs_.all_to_all(group_, charged_bytes(from)),
               [&] { copy(from, to); });
}

Pending ModelledCommunicator::broadcast(const View& data, int root) {
  contract::moved("broadcast", data);
  contract::peer("broadcast", root, size());
  return start("broadcast", costs_.broadcast(group_, charged_bytes(data)), [&] {
    if (root != rank_) clear(data);
  });
}

double ModelledCommunicator::message_seconds(const View& data, int peer) const {
  const bool same_node = group_.size == 1 || peer / group_.per_node == rank_ / group_.per_node;
  return costs_.message(same_node, charged_bytes(data));
}

Pending ModelledCommunicator::send(const View& data, int to) {
  contract::moved("send", data);
  contract::peer("send", to, size());
  return start("send", message_seconds(data, to));
}

Pending ModelledCommunicator::receive(const View& data, int from) {
  contract::moved("receive", data);
  contract::peer("receive", from, size());
  return start("receive", message_seconds(data, from), [&] { make_up(data); });
}

Pending ModelledCommunicator::shift(const View& from, const View& to) {
  contract::shifted(from, to);
  return start("shift", costs_.shift(group_, charged_bytes(from)), [&] { copy(from, to); });
}

void ModelledCommunicator::barrier() {
  start("barrier", costs_.all_reduce(group_, 0)).wait();
  device_.synchronize();
}

}  // namespace frugal::engine
