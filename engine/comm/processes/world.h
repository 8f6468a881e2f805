#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/failure.h"

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

/// The processes of a run, one for each rank, and what they tell each other beside their tensors:
/// values of the host, what each does, and why the run ends. They are connected by TCP, each with
/// rank 0, and a thread of each process listens: it hears of a process that is killed at once, and
/// of one that is stopped because it is not heard any more.
///
/// Once the run has failed, every future call throws the failure, the same in all processes, and so
/// does a present one that waits for values.
class World {
  using Lock = std::unique_lock<std::mutex>;

 public:
  struct Options {
    double deadline = 600;  ///< seconds that a process waits for another, in exchange()
    /// Returns true if the user wants this process to stop; asked while it waits.
    std::function<bool()> stop = {};
    /// Called, by a thread of the world's, where the process has not ended so many seconds after
    /// the run has failed.
    std::function<void(const Failure&)> overdue = {};
    /// Port at which rank 0 waits for the others, and what they must know; 0 and empty: any.
    int port = 0;
    std::string secret = {};
  };
  /// Broadcasts rank 0's address: takes it there, and returns it in all processes. MPI does it, or
  /// the environment.
  using Tell = std::function<std::string(const std::string& address)>;

  /// Waits until all processes are connected. Throws InputError where they cannot be.
  World(int rank, int size, const Tell& tell, Options options);
  World(int rank, int size, const Tell& tell) : World(rank, size, tell, Options()) {}
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  double deadline() const { return options_.deadline; }
  void set_deadline(double seconds) {
    const Lock lock(mutex_);
    options_.deadline = seconds;
  }
  Activity& activity() { return activity_; }

  /// All-gathers `mine`, in the order of ranks. All processes call it, in the same order.
  std::vector<std::string> exchange(const std::string& mine) { return values(mine, true); }
  /// Gathers for rank 0 alone; the others get nothing, and do not wait.
  std::vector<std::string> gather(const std::string& mine) { return values(mine, false); }
  /// `go_on` lets go on what this process has under way with others, and says whether there still
  /// is something. It is called while the process waits in exchange(), and by go_on().
  void while_waiting(std::function<bool()> go_on) { go_on_ = std::move(go_on); }
  /// Lets go on what is under way; to be called now and then by whoever does something else.
  bool go_on() const { return go_on_ && go_on_(); }
  /// Throws the failure that has ended the run, if there is one, and Interrupted where the user
  /// wants to stop.
  void check();
  /// Ends the run of all processes. The first failure counts: returns it, with what rank 0 adds to
  /// it.
  Failure fail(const Failure& failure);
  std::optional<Failure> failure() const;
  /// True if this process says how the run ended: rank 0, or rank 1 if rank 0 is lost.
  bool speaks() const;

  /// The process ends as it should: nobody misses it.
  void leave();

 private:
  std::vector<std::string> values(const std::string& mine, bool for_all);
  void connect(const Tell& tell);
  void accept_all(const Listener& listener);
  bool welcome(std::unique_ptr<Connection>& connection, const std::string& secret);
  void listen(const std::stop_token& stop);
  void beat();
  void read(size_t peer);
  void handle(const Message& message);
  void add_value(const Message& message);
  void miss(size_t peer);
  // Of rank 0, which decides why the run has failed; `mutex_` is held.
  void consider(const Failure& failure, bool missing);
  void settle_when_due();
  void tell_failure();
  void settle(const Failure& failure);
  std::vector<Heard> heard_now() const;
  void send_to(size_t peer, const Message& message);
  void wake() const;

  const int rank_, size_;
  Options options_;
  Activity activity_;
  std::function<bool()> go_on_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Connection>> peers_;  // of rank 0 all; of others rank 0
  std::vector<Heard> heard_;                        // by rank
  std::optional<Failure> failure_, considered_;
  bool missing_ = false;  // considered_ is that a process is
  double settle_at_ = 0, failed_at_ = 0;
  bool leaving_ = false;
  uint64_t exchanges_ = 0;
  std::map<uint64_t, std::map<int, std::string>> parts_;  // those that rank 0 has of each
  std::map<uint64_t, std::vector<std::string>> values_;
  Descriptor wake_;
  std::jthread thread_;
};

}  // namespace frugal::engine
