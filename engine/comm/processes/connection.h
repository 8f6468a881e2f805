#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/namespace.h"

namespace frugal::engine {

/// A file of the operating system's that is closed with it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() noexcept;
  int release() noexcept;

 private:
  int number_;
};

/// Unit of conversation between two processes.
struct Message {
  enum class Kind : uint8_t {
    hello,     ///< who connects
    beat,      ///< what a rank does (Activity::State); says that it is alive
    value,     ///< a rank's part of an exchange
    gathered,  ///< a rank's part of what is for rank 0 alone
    values,    ///< all ranks' parts
    failed,    ///< Failure
    bye        ///< the process ends as it should
  };
  Kind kind = Kind::beat;
  int rank = 0;         ///< whose it is
  uint64_t number = 0;  ///< of an exchange
  std::string body = {};
};

/// A TCP connection that carries messages, and never waits. To be used by one thread.
class Connection {
 public:
  explicit Connection(Descriptor socket);

  int number() const { return socket_.number(); }
  bool open() const { return socket_.open(); }
  bool wants_to_write() const { return !out_.empty(); }
  void send(const Message& message);
  /// Sends as much as the network takes now.
  void flush();
  /// Returns what has arrived. Closes if the other side has closed, or cannot be reached.
  std::vector<Message> receive();
  void close() noexcept { socket_.close(); }

 private:
  Descriptor socket_;
  std::string in_, out_;
};

/// Socket at which rank 0 waits for the others.
class Listener {
 public:
  /// Listens at `port`; 0: at any free one. Whoever connects must know the secret; empty: a random
  /// one. Throws InputError if the port is taken.
  explicit Listener(int port = 0, std::string secret = "");

  /// Argument for connect_to(): port, secret, this host's name and its addresses.
  std::string address() const;
  const std::string& secret() const { return secret_; }
  int number() const { return socket_.number(); }
  /// The next connection, if there is one.
  std::optional<Connection> accept() const;

 private:
  Descriptor socket_;
  int port_ = 0;
  std::string secret_;
};

/// A connection to a listener, tried for so many seconds, at each of its addresses, which may be
/// names. Throws InputError that names them.
Connection connect_to(const std::string& address, int rank, double seconds);

std::string host_name();

}  // namespace frugal::engine
