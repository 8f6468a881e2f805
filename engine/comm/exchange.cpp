#include "engine/comm/exchange.h"

#include <algorithm>
#include <utility>

namespace frugal::engine {

void Exchange::send(const Message& message) {
  message.rendezvous->post(message.rank, message.peer, message.data, message.ready);
  sent_.push_back(message);
}

void Exchange::complete(Message* received) {
  std::vector<Message> sent = std::exchange(sent_, {});
  const auto with_received = std::stable_partition(sent.begin(), sent.end(), [&](const Message& m) {
    return received == nullptr || m.peer != received->peer;
  });
  for (auto m = sent.begin(); m != with_received; ++m) {
    const Crossing crossing = sending(*m);
    const double over = finish(*m, crossing.begin, crossing.end());
    if (received != nullptr) received->ready = std::max(received->ready, over);
  }
  if (received == nullptr) return;
  received->rendezvous->post(received->rank, received->peer, {}, received->ready,
                             Rendezvous::MessageKind::ready);
  std::vector<Crossing> opposite;
  for (auto m = with_received; m != sent.end(); ++m) opposite.push_back(sending(*m));
  const double posted =
      received->rendezvous->take(received->peer, received->rank, received->number, received->data);
  const Crossing coming{std::max(received->ready, posted), received->cost};
  double last = coming.end();
  for (size_t i = 0; i < opposite.size(); ++i) {
    const auto [of_sent, of_received] = ends_of_both(opposite[i], coming);
    finish(with_received[static_cast<std::ptrdiff_t>(i)], opposite[i].begin, of_sent);
    last = std::max(last, of_received);
  }
  device_.hold_up({.time = last, .handle = nullptr});
}

Crossing Exchange::sending(const Message& sent) {
  const double taken =
      sent.rendezvous->take(sent.peer, sent.rank, sent.number, {}, Rendezvous::MessageKind::ready);
  return {std::max(sent.ready, taken), sent.cost};
}

double Exchange::finish(const Message& sent, double begin, double end) {
  device_.occupy_between(sent.stream, "send", begin, end);
  const double over = std::max(begin, end - sent.cost.buffered);
  device_.hold_up({.time = over, .handle = nullptr});
  return over;
}

}  // namespace frugal::engine
