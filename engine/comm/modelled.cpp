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

double seconds_of_collective(const CostModel& costs, const CostModel::Group& group,
                             const Call& call) {
  const double bytes = charged_bytes(call.from);
  switch (call.kind) {
    case Call::Kind::all_reduce:
    case Call::Kind::barrier:
      return costs.all_reduce(group, bytes);
    case Call::Kind::all_gather:
      return costs.all_gather(group, charged_bytes(call.to));
    case Call::Kind::reduce_scatter:
      return costs.reduce_scatter(group, bytes);
    case Call::Kind::all_to_all:
      return costs.all_to_all(group, bytes);
    case Call::Kind::broadcast:
      return costs.broadcast(group, bytes);
    case Call::Kind::shift:
      return costs.shift(group, bytes);
    case Call::Kind::send:
    case Call::Kind::receive:
      break;
  }
  throw std::logic_error("a message is no collective");
}

double ModelledCommunicator::seconds_of(const Call& call) const {
  if (call.kind != Call::Kind::send && call.kind != Call::Kind::receive)
    return seconds_of_collective(costs_, group_, call);
  const bool same_node = group_.size == 1 || call.peer / group_.per_node == rank_ / group_.per_node;
  return costs_.message(same_node, charged_bytes(call.from));
}

Pending ModelledCommunicator::begin(const Call& call) {
  const bool alone = group_.size == 1;
  if (alone && !device_.backed()) return {};
  const double seconds = seconds_of(call);
  const Event ready = device_.record(Stream::compute);
  device_.wait(stream_, ready);
  // First, so that on a cpu device the time begins to pass before the copies take theirs.
  if (!alone) device_.occupy(stream_, seconds, name_of(call.kind));
  charged_ += seconds;
  if (device_.backed()) {
    device_.wait(Stream::copy, ready);
    move(call);
    device_.wait(stream_, device_.record(Stream::copy));
  }
  return Pending(std::make_unique<ModelledWork>(device_, device_.record(stream_)));
}

void ModelledCommunicator::move(const Call& call) {
  switch (call.kind) {
    case Call::Kind::all_gather:
      for (int j = 0; j < size(); ++j) copy(call.from, part_of(call.to, j, size()));
      return;
    case Call::Kind::reduce_scatter:
      return copy(part_of(call.from, rank_, size()), call.to);
    case Call::Kind::all_to_all:
    case Call::Kind::shift:
      return copy(call.from, call.to);
    case Call::Kind::broadcast:
      if (call.peer != rank_) clear(call.to);
      return;
    case Call::Kind::receive:
      return make_up(call.to);
    default:
      return;  // a sum is its own addend
  }
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

}  // namespace frugal::engine
