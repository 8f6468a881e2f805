#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/comm/processes/world.h"
#include "kernels/support/error.h"

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

/// IPv4 addresses of the interfaces that are up, loopback left out.
std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    all.emplace_back(text.data());
  }
  freeifaddrs(first);
  return all;
}

std::string random_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// One attempt at a number or a name, which waits a second at most.
Descriptor try_to_connect(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    return Descriptor();
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval second{.tv_sec = 1, .tv_usec = 0};
  setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  const int failed = ::connect(socket.number(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return failed == 0 ? std::move(socket) : Descriptor();
}

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

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Listener::Listener(int port, std::string secret)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      secret_(secret.empty() ? random_secret() : std::move(secret)) {
  const int on = 1;
  setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const int bound = bind(socket_.number(), address, size);
  if (bound != 0 || listen(socket_.number(), SOMAXCONN) != 0)
    throw InputError(fmt::format(
        "port {} of {} cannot be listened at ({}); choose another, with torchrun by --master-port",
        port, host_name(), std::strerror(errno)));
  getsockname(socket_.number(), address, &size);
  port_ = ntohs(own.sin_port);
}

std::string Listener::address() const {
  return fmt::format("{} {} {} {}", port_, secret_, host_name(), fmt::join(own_addresses(), " "));
}

std::optional<Connection> Listener::accept() const {
  Descriptor socket(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.open()) return std::nullopt;
  return Connection(std::move(socket));
}

Connection connect_to(const std::string& address, int rank, double seconds) {
  std::istringstream words(address);
  int port = 0;
  std::string secret, host;
  words >> port >> secret >> host;
  std::vector<std::string> addresses;
  for (std::string word; words >> word;) addresses.push_back(word);
  if (host == host_name()) addresses.insert(addresses.begin(), "127.0.0.1");
  const double end = activity_clock() + seconds;
  do {
    for (const std::string& each : addresses) {
      Descriptor socket = try_to_connect(each, port);
      if (!socket.open()) continue;
      Connection connection(std::move(socket));
      connection.send({.kind = Message::Kind::hello, .rank = rank, .body = secret});
      return connection;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (activity_clock() < end);
  throw InputError(fmt::format(
      "rank {} on {} cannot reach rank 0 on {} at port {} of {}; let the hosts reach each other by "
      "TCP",
      rank, host_name(), host, port, fmt::join(addresses, ", ")));
}

}  // namespace frugal::engine
