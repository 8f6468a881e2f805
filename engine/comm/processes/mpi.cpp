#include "engine/comm/processes/mpi.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <exception>
#include <list>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/comm/local.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

/// Throws PeerLost with MPI's words unless a call has succeeded; `call` is its name.
void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(result, text.data(), &size);
  throw PeerLost(fmt::format("{}: {}", call, text.data()));
}

/// Memory that is used again.
class Scratch {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
  };
  Buffer take(size_t bytes) {
    for (Buffer& buffer : free_)
      if (buffer.capacity >= bytes && buffer.capacity / 2 <= bytes) {
        std::swap(buffer, free_.back());
        Buffer taken = std::move(free_.back());
        free_.pop_back();
        return taken;
      }
    return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  }
  void give_back(Buffer buffer) {
    constexpr size_t most = 8;  // as many as are under way at once, or nearly
    if (free_.size() == most) free_.erase(free_.begin());
    free_.push_back(std::move(buffer));
  }

 private:
  std::vector<Buffer> free_;
};

/// A collective or message that was started: requests of MPI's, and what follows when they have
/// ended, which may make further ones.
struct Flight {
  std::vector<MPI_Request> requests;
  std::function<void(Flight&)> next = {};
  Scratch::Buffer scratch = {};
  bool over = false;

  void add(MPI_Request request) { requests.push_back(request); }
};

/// Policy of a waiting process: it looks again at once, then lets others have the core, for longer
/// than the ranks of a step are usually apart, then sleeps.
class Patience {
 public:
  void look_again() {
    ++looks_;
    if (looks_ < at_once) return;
    if (looks_ < at_once + yielding)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  /// True in every 16th look, for what need not be looked at more often.
  bool now_and_then() const { return looks_ % 16 == 15; }

 private:
  static constexpr int at_once = 400, yielding = 4000;
  int looks_ = 0;
};

/// All that one process has under way. Whoever waits lets all of it go on.
class Flights {
 public:
  explicit Flights(World& world) : world_(world) {}

  /// A new one, with so many bytes of scratch memory; it goes on from its next advance().
  std::shared_ptr<Flight> start(size_t scratch = 0) {
    auto flight = std::make_shared<Flight>();
    if (scratch > 0) flight->scratch = scratch_.take(scratch);
    flights_.push_back(flight);
    return flight;
  }
  /// Waits until the flight is over. `call` names it in the message of a deadline that passes.
  void wait(const Flight& flight, const std::function<std::string()>& call) {
    wait_until([&] { return flight.over; }, call);
  }
  /// Waits until nothing is under way any more.
  void finish() {
    wait_until([&] { return flights_.empty(); }, [] { return "what was under way"; });
  }
  /// Lets all go on; whether something is still under way then.
  bool go_on() {
    for (auto i = flights_.begin(); i != flights_.end();) {
      advance(**i);
      i = (*i)->over ? flights_.erase(i) : std::next(i);
    }
    return !flights_.empty();
  }
  World& world() { return world_; }

 private:
  void advance(Flight& flight) {
    int ended = 0;
    check(MPI_Testall(static_cast<int>(flight.requests.size()), flight.requests.data(), &ended,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (ended == 0) return;
    flight.requests.clear();
    if (const auto next = std::exchange(flight.next, {})) next(flight);
    flight.over = flight.requests.empty() && !flight.next;
    if (flight.over && flight.scratch.capacity > 0) scratch_.give_back(std::move(flight.scratch));
  }
  template <class Ready>
  void wait_until(const Ready& ready, const std::function<std::string()>& call) {
    const double begin = activity_clock();
    for (Patience patience; !ready(); patience.look_again()) {
      (void)go_on();
      if (!patience.now_and_then()) continue;
      world_.check();
      if (activity_clock() - begin > world_.deadline())
        throw DeadlinePassed(fmt::format("rank {}: {} did not end within {} s", world_.rank(),
                                         call(), world_.deadline()));
    }
  }

  World& world_;
  Scratch scratch_;
  std::list<std::shared_ptr<Flight>> flights_;
};

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i32:
      return MPI_INT32_T;
  }
  throw std::logic_error("mpi_type: no such type");
}

int count(const View& view) {
  if (view.size() > INT_MAX)
    throw InputError(
        fmt::format("{} elements are to be sent at once and MPI has at most {}; choose a smaller "
                    "microbatch",
                    view.size(), INT_MAX));
  return static_cast<int>(view.size());
}

/// Elements of which one rank computes the sum.
View chunk_of(const View& data, int rank, int ranks) {
  const int64_t begin = data.size() * rank / ranks, end = data.size() * (rank + 1) / ranks;
  return data.flat().sliced(0, begin, end - begin);
}

/// A collective or message that a rank has started and not yet waited for.
class MpiWork final : public Pending::Work {
 public:
  MpiWork(Flights& flights, std::shared_ptr<Flight> flight, const Call& call, uint64_t number)
      : flights_(flights), flight_(std::move(flight)), call_(call), number_(number) {}
  void wait() override {
    // A rank that unwinds lets its peers down: they hear it from the cluster.
    if (std::uncaught_exceptions() > exceptions_) return;
    flights_.wait(*flight_,
                  [this] { return fmt::format("{} (number {})", call_.text(), number_); });
  }

 private:
  Flights& flights_;
  const std::shared_ptr<Flight> flight_;
  const Call call_;
  const uint64_t number_;
  const int exceptions_ = std::uncaught_exceptions();
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Flights& flights, MPI_Comm comm) : flights_(flights), comm_(comm) {
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { begin({}).wait(); }
  void abort(const std::string& /*reason*/) noexcept override {}  // the cluster tells the world

 private:
  static constexpr int message_tag = 0;

  Pending begin(const Call& call) override {
    switch (call.kind) {
      case Call::Kind::all_reduce:
        if (size_ == 1) return {};  // a sum of one is what it was
        return size_ == 2 ? exchange_and_sum(call) : sum_chunks(call);
      case Call::Kind::reduce_scatter:
        return gather_and_sum(call);
      case Call::Kind::send:
        send_copy(call.from, call.peer);
        return {};
      default:
        break;
    }
    const auto flight = flights_.start();
    if (call.kind == Call::Kind::receive) {
      flight->add(receive_from(call.to, call.peer, message_tag));
    } else if (call.kind == Call::Kind::shift) {
      const int tag = next_tag();
      flight->add(receive_from(call.to, (rank_ + size_ - 1) % size_, tag));
      flight->add(send_to(call.from, (rank_ + 1) % size_, tag));
    } else {
      flight->add(collective(call));
    }
    return pending(flight, call);
  }
  /// Request of a collective that MPI has.
  MPI_Request collective(const Call& call) const {
    const View &from = call.from, &to = call.to;
    MPI_Datatype const type = mpi_type(from.type);
    MPI_Request made = MPI_REQUEST_NULL;
    if (call.kind == Call::Kind::all_gather) {
      const bool in_place = from.data == part_of(to, rank_, size_).data;
      check(MPI_Iallgather(in_place ? MPI_IN_PLACE : from.data, count(from), type, to.data,
                           count(from), type, comm_, &made),
            "MPI_Iallgather");
    } else if (call.kind == Call::Kind::all_to_all) {
      const int each = count(part_of(from, 0, size_));
      check(MPI_Ialltoall(from.data, each, type, to.data, each, type, comm_, &made),
            "MPI_Ialltoall");
    } else if (call.kind == Call::Kind::broadcast) {
      check(MPI_Ibcast(to.data, count(to), type, call.peer, comm_, &made), "MPI_Ibcast");
    } else {
      check(MPI_Ibarrier(comm_, &made), "MPI_Ibarrier");
    }
    return made;
  }
  MPI_Request send_to(const View& data, int to, int tag) const {
    MPI_Request made = MPI_REQUEST_NULL;
    check(MPI_Isend(data.data, count(data), mpi_type(data.type), to, tag, comm_, &made),
          "MPI_Isend");
    return made;
  }
  MPI_Request receive_from(const View& data, int from, int tag) const {
    MPI_Request made = MPI_REQUEST_NULL;
    check(MPI_Irecv(data.data, count(data), mpi_type(data.type), from, tag, comm_, &made),
          "MPI_Irecv");
    return made;
  }
  /// Tag of a collective made of messages, different from those of others that are under way.
  int next_tag() { return message_tag + 1 + static_cast<int>(tagged_++ % (1 << 14)); }

  Pending pending(std::shared_ptr<Flight> flight, const Call& call) {
    return Pending(std::make_unique<MpiWork>(flights_, std::move(flight), call, count_++));
  }
  void send_copy(const View& data, int to) {
    const auto flight = flights_.start(static_cast<size_t>(data.bytes()));
    const View copy{flight->scratch.bytes.get(), data.type, {data.size()}};
    std::memcpy(copy.data, data.data, static_cast<size_t>(data.bytes()));
    flight->add(send_to(copy, to, message_tag));
  }

  /// sum := Σ of what each rank has, which for rank r lies at of(r).
  template <class Of>
  void sum_into(const View& sum, Of of) const {
    std::vector<const void*> sources;
    for (int r = 0; r < size_; ++r) sources.push_back(of(r));
    void* const target = sum.data;
    reduce_into(sum.type, sources.data(), size_, 0, sum.size(), &target, 1, 0);
  }

  Pending gather_and_sum(const Call& call) {
    const View &all = call.from, &shard = call.to;
    const auto flight = flights_.start(static_cast<size_t>(all.bytes()));
    std::byte* const arrived = flight->scratch.bytes.get();
    flight->add(collective({Call::Kind::all_to_all, all, {arrived, all.type, {all.size()}}}));
    flight->next = [shard, arrived, this](Flight&) {
      sum_into(shard, [&](int rank) { return arrived + rank * shard.bytes(); });
    };
    return pending(flight, call);
  }
  /// All-reduce of two ranks: each sends all it has and sums all. No rank waits for what another
  /// does after it has started, and no more is sent than in chunks.
  Pending exchange_and_sum(const Call& call) {
    const View& data = call.to;
    const auto flight = flights_.start(static_cast<size_t>(data.bytes()));
    std::byte* const arrived = flight->scratch.bytes.get();
    const int tag = next_tag();
    flight->add(receive_from({arrived, data.type, {data.size()}}, 1 - rank_, tag));
    flight->add(send_to(data, 1 - rank_, tag));
    flight->next = [data, arrived, this](Flight&) {
      sum_into(data, [&](int rank) -> const void* { return rank == rank_ ? data.data : arrived; });
    };
    return pending(flight, call);
  }
  /// All-reduce of more ranks: rank r sums chunk r of everybody's, and sends the sum to everybody.
  Pending sum_chunks(const Call& call) {
    const View& data = call.to;
    const View own = chunk_of(data, rank_, size_);
    const auto flight = flights_.start(static_cast<size_t>(own.bytes() * size_));
    std::byte* const arrived = flight->scratch.bytes.get();
    const int tag = next_tag();
    const int tag_of_sums = next_tag();
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      flight->add(receive_from({arrived + peer * own.bytes(), own.type, {own.size()}}, peer, tag));
    }
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + size_ - i) % size_;
      flight->add(send_to(chunk_of(data, peer, size_), peer, tag));
    }
    flight->next = [data, own, arrived, tag_of_sums, this](Flight& sums) {
      sum_into(own, [&](int rank) -> const void* {
        return rank == rank_ ? own.data : arrived + rank * own.bytes();
      });
      for (int i = 1; i < size_; ++i) {
        const int peer = (rank_ + i) % size_;
        sums.add(receive_from(chunk_of(data, peer, size_), peer, tag_of_sums));
        sums.add(send_to(own, peer, tag_of_sums));
      }
    };
    return pending(flight, call);
  }

  Flights& flights_;
  const MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  uint64_t count_ = 0, tagged_ = 0;
};

class MpiGroup final : public Group {
 public:
  MpiGroup(std::shared_ptr<Flights> flights, MPI_Comm comm)
      : flights_(std::move(flights)), comm_(comm) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    communicators_.push_back(std::make_unique<MpiCommunicator>(*flights_, comm_));
  }
  ~MpiGroup() override {
    if (flights_->world().failure()) return;  // what is under way would never end
    try {
      flights_->finish();
      MPI_Comm_free(&comm_);
    } catch (...) {  // the world knows it
    }
  }

 private:
  std::shared_ptr<Flights> flights_;
  MPI_Comm comm_;
};

/// A group of one needs no MPI, but all take part in dividing the world.
std::unique_ptr<Group> make_group(const std::shared_ptr<Flights>& flights,
                                  const std::vector<int>& ranks) {
  const int own = flights->world().rank();
  const auto place = std::find(ranks.begin(), ranks.end(), own);
  if (place == ranks.end()) throw std::logic_error("a group is made by its members");
  const bool alone = ranks.size() == 1;
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(MPI_COMM_WORLD, alone ? MPI_UNDEFINED : ranks.front(),
                       static_cast<int>(place - ranks.begin()), &comm),
        "MPI_Comm_split");
  if (alone) return std::make_unique<LocalGroup>(1);
  return std::make_unique<MpiGroup>(flights, comm);
}

}  // namespace

std::string why_no_mpi() { return ""; }

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int size = 0;
  MPI_Get_library_version(text.data(), &size);
  const std::string version = text.data();
  return version.substr(0, version.find(','));
}

MpiSession::MpiSession() {
  int level = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
    throw InputError("MPI could not be started; see what it has said above");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiSession::~MpiSession() {
  if (!given_up_) MPI_Finalize();
}

std::string MpiSession::tell(const std::string& text) const {
  auto size = static_cast<int>(text.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string told = text;
  told.resize(static_cast<size_t>(size));
  MPI_Bcast(told.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  return told;
}

void MpiSession::abort(int status) const {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

MakeProcessGroup mpi_groups(World& world) {
  const auto flights = std::make_shared<Flights>(world);
  // A message is sent by its sender's calls of MPI: it must not stay behind while that computes, or
  // waits for values.
  world.while_waiting([left = std::weak_ptr(flights)] {
    const auto flights = left.lock();
    return flights != nullptr && flights->go_on();
  });
  return [flights](const std::vector<int>& ranks) { return make_group(flights, ranks); };
}

}  // namespace frugal::engine
