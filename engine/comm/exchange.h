#pragma once
#include <vector>

#include "engine/comm/rendezvous.h"
#include "engine/schedule/links.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {

/// The messages of one stage where it exchanges them with its neighbours (Messages::exchanged):
/// before it computes on it waits until what it has sent is there, and what it needs next. With the
/// same neighbour both are under way together; otherwise it sends first, and is then ready to
/// receive. A message begins when its sender has computed it and its receiver is ready for it.
///
/// A stage says that it is ready to receive before it waits for what it has sent to the same
/// neighbour, so that two stages that send to each other do not wait for each other.
class Exchange {
 public:
  explicit Exchange(VirtualDevice& device) : device_(device) {}

  /// One end of a message: whom `rank` sends it to, or who sends it to `rank`.
  struct Message {
    Rendezvous* rendezvous = nullptr;
    int rank = 0, peer = 0;
    Stream stream;
    View data;
    uint64_t number = 0;  ///< of the message where it is received, of the answer where it is sent
    double ready = 0;     ///< when this end is
    LinkCost cost;
  };
  void send(const Message& message);
  /// What has been sent, and what is to be received: the device and its host wait for both.
  void complete(Message* received = nullptr);
  /// Forgets what has been sent.
  void reset() { sent_.clear(); }

 private:
  /// When both ends of a message that was sent are ready.
  static Crossing sending(const Message& sent);
  /// Returns when the sender is through with it.
  double finish(const Message& sent, double begin, double end);

  VirtualDevice& device_;
  std::vector<Message> sent_;
};

}  // namespace frugal::engine
