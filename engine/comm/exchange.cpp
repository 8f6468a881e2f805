#include "engine/comm/exchange.h"

#include <algorithm>
#include <utility>

namespace frugal::engine {

std::pair<double, double> ends_of_both(const Crossing& a, const Crossing& b) {
  const bool a_first = a.begin <= b.begin;
  const Crossing& first = a_first ? a : b;
  const Crossing& second = a_first ? b : a;
  if (first.end() <= second.begin) return {a.end(), b.end()};
  const auto slowed = [](const Crossing& t) { return t.beside / t.alone; };
  const double first_left = first.end() - second.begin;
  const double first_slow = first_left * slowed(first);
  const double second_slow = second.alone * slowed(second);
  // Whichever is over first leaves the other one all of its speed.
  const double together = std::min(first_slow, second_slow);
  const double begin = second.begin + together;
  const double first_end = begin + first_left - together / slowed(first);
  const double second_end = begin + second.alone - together / slowed(second);
  return a_first ? std::pair{first_end, second_end} : std::pair{second_end, first_end};
}

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
  const Crossing coming{std::max(received->ready, posted), received->alone, received->beside};
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
  return {std::max(sent.ready, taken), sent.alone, sent.beside};
}

double Exchange::finish(const Message& sent, double begin, double end) {
  device_.occupy_between(sent.stream, "send", begin, end);
  const double over = std::max(begin, end - sent.buffered);
  device_.hold_up({.time = over, .handle = nullptr});
  return over;
}

}  // namespace frugal::engine
