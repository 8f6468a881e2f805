#include "engine/comm/exchange.h"

#include <algorithm>

namespace frugal::engine {

std::pair<double, double> ends_of_both(const Transfer& a, const Transfer& b) {
  const bool a_first = a.begin <= b.begin;
  const Transfer& first = a_first ? a : b;
  const Transfer& second = a_first ? b : a;
  if (first.end() <= second.begin) return {a.end(), b.end()};
  const auto slowed = [](const Transfer& t) { return t.beside / t.alone; };
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

void Exchange::complete(const Message* received) {
  const std::vector<Message> sent = std::exchange(sent_, {});
  using Letter = Rendezvous::Letter;
  if (received != nullptr)
    received->rendezvous->post(received->rank, received->peer, {}, received->ready, Letter::ready);
  std::vector<Transfer> sending;
  for (const Message& m : sent) {
    const double taken = m.rendezvous->take(m.peer, m.rank, m.number, {}, Letter::ready);
    sending.push_back({std::max(m.ready, taken), m.alone, m.beside});
  }
  std::vector<double> ends;
  for (const Transfer& t : sending) ends.push_back(t.end());
  double last = 0;
  if (received != nullptr) {
    const Message& m = *received;
    const double posted = m.rendezvous->take(m.peer, m.rank, m.number, m.data);
    const Transfer coming{std::max(m.ready, posted), m.alone, m.beside};
    last = coming.end();
    for (size_t i = 0; i < sent.size(); ++i) {
      if (sent[i].peer != m.peer) continue;
      const auto [of_sent, of_received] = ends_of_both(sending[i], coming);
      ends[i] = of_sent;
      last = std::max(last, of_received);
    }
  }
  for (size_t i = 0; i < sent.size(); ++i) {
    device_.occupy_between(sent[i].stream, "send", sending[i].begin, ends[i]);
    last = std::max(last, ends[i]);
  }
  device_.hold_up({.time = last, .handle = nullptr});
}

}  // namespace frugal::engine
