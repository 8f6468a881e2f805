#include "engine/comm/processes/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace frugal::engine {
namespace {

/// Precedes a message's body.
struct MessageHeader {
  uint64_t size;
  uint64_t number;
  int32_t rank;
  Message::Kind kind;
};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  close();
  number_ = other.release();
  return *this;
}

void Descriptor::close() noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

int Descriptor::release() noexcept { return std::exchange(number_, -1); }

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  fcntl(socket_.number(), F_SETFL, O_NONBLOCK);
  const int on = 1;
  setsockopt(socket_.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Connection::send(const Message& message) {
  const MessageHeader header{message.body.size(), message.number, message.rank, message.kind};
  out_.append(reinterpret_cast<const char*>(&header), sizeof header);
  out_ += message.body;
  flush();
}

void Connection::flush() {
  size_t done = 0;
  while (open() && done < out_.size()) {
    const ssize_t sent =
        ::send(socket_.number(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!would_block()) close();
      break;
    }
    done += static_cast<size_t>(sent);
  }
  out_.erase(0, done);
}

std::vector<Message> Connection::receive() {
  for (bool more = true; more && open();) {
    std::string part(1 << 16, '\0');
    const ssize_t size = ::recv(socket_.number(), part.data(), part.size(), 0);
    more = size > 0;
    if (more) in_.append(part, 0, static_cast<size_t>(size));
    if (size == 0 || (size < 0 && !would_block())) close();
  }
  std::vector<Message> messages;
  size_t done = 0;
  MessageHeader header{};
  while (in_.size() - done >= sizeof header) {
    std::memcpy(&header, in_.data() + done, sizeof header);
    if (in_.size() - done - sizeof header < header.size) break;
    messages.push_back({.kind = header.kind,
                        .rank = header.rank,
                        .number = header.number,
                        .body = in_.substr(done + sizeof header, header.size)});
    done += sizeof header + header.size;
  }
  in_.erase(0, done);
  return messages;
}

}  // namespace frugal::engine
