#include "engine/comm/processes/world.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <nlohmann/json.hpp>

#include "kernels/support/error.h"

namespace frugal::engine {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Activity::Call, name, group, number, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Activity::State, call, waiting, since, not_finite, not_finite_at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failure, kind, rank, reason, bytes)

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto beat_every = 100ms;
/// Seconds in which rank 0 says what counts; and in which a user's stop is found to be a launcher's
/// that has lost a process.
constexpr double word_of_rank_0 = 2;
constexpr double stop_may_be_a_loss = 0.3;
/// Seconds in which rank 0 hears what all do, before it says whose fault it is.
constexpr double hearing_all = 0.25;
/// Seconds without news after which rank 0 counts as lost.
constexpr double silence_of_rank_0 = 1.5;
constexpr double connecting = 60;

std::string in_cbor(const json& values) {
  const std::vector<uint8_t> bytes = json::to_cbor(values);
  return {bytes.begin(), bytes.end()};
}

/// The state with `since` as seconds before now, or the moment so many seconds before now: the
/// clocks of processes may differ.
Activity::State turned(Activity::State state) {
  state.since = activity_clock() - state.since;
  return state;
}

}  // namespace

World::World(int rank, int size, const Tell& tell, Options options)
    : rank_(rank), size_(size), options_(std::move(options)) {
  activity_.reset();
  heard_.resize(static_cast<size_t>(size));
  for (Heard& rank : heard_) rank.at = activity_clock();
  wake_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_.open())
    throw InputError("the system gives no more descriptors; raise the limit of open files");
  connect(tell);
  if (rank_ == 0 && failure_) tell_failure();  // to those that have connected since
  thread_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

World::~World() {
  leave();
  thread_.request_stop();
  wake();
}

void World::connect(const Tell& tell) {
  if (rank_ == 0) {
    const Listener listener(options_.port, options_.secret);
    tell(listener.address());
    peers_.resize(static_cast<size_t>(size_));
    accept_all(listener);
  } else {
    const std::string address = tell("");
    peers_.push_back(std::make_unique<Connection>(connect_to(address, rank_, connecting)));
  }
}

void World::accept_all(const Listener& listener) {
  std::vector<std::unique_ptr<Connection>> unknown;
  int connected = 1;
  const double end = activity_clock() + connecting;
  while (connected < size_) {
    if (activity_clock() > end)
      throw InputError(fmt::format(
          "{} of {} processes have connected to rank 0 on {} within {} s; let the hosts reach each "
          "other by TCP",
          connected, size_, host_name(), connecting));
    std::vector<pollfd> wait{{listener.number(), POLLIN, 0}};
    for (const auto& each : unknown) wait.push_back({each->number(), POLLIN, 0});
    poll(wait.data(), wait.size(), 100);
    while (auto connection = listener.accept())
      unknown.push_back(std::make_unique<Connection>(std::move(*connection)));
    for (auto& each : unknown) connected += welcome(each, listener.secret());
    std::erase_if(unknown, [](const auto& each) { return !each || !each->open(); });
  }
}

/// A connection that has said who it is becomes that peer's; what came behind that counts. Returns
/// whether it did.
bool World::welcome(std::unique_ptr<Connection>& connection, const std::string& secret) {
  bool known = false;
  for (const Message& message : connection->receive()) {
    const auto peer = static_cast<size_t>(message.rank);
    if (!known && (message.kind != Message::Kind::hello || message.body != secret ||
                   peer >= peers_.size() || peers_[peer])) {
      connection->close();
      return false;
    }
    if (known)
      handle(message);
    else
      peers_[peer] = std::make_unique<Connection>(std::move(*connection));
    known = true;
  }
  return known;
}

void World::wake() const { eventfd_write(wake_.number(), 1); }

void World::listen(const std::stop_token& stop) {
  double next_beat = 0;
  while (!stop.stop_requested()) {
    std::vector<pollfd> wait{{wake_.number(), POLLIN, 0}};
    {
      const Lock lock(mutex_);
      for (const auto& peer : peers_) {
        if (!peer || !peer->open()) continue;
        const bool writes = peer->wants_to_write();
        wait.push_back({peer->number(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
      }
    }
    poll(wait.data(), wait.size(), std::chrono::milliseconds(beat_every).count());
    eventfd_t woken = 0;
    eventfd_read(wake_.number(), &woken);
    Lock lock(mutex_);
    for (size_t peer = 0; peer < peers_.size(); ++peer)
      if (peers_[peer]) read(peer);
    settle_when_due();
    if (failure_ && options_.overdue && activity_clock() - failed_at_ > options_.deadline) {
      lock.unlock();  // it may ask who speaks
      options_.overdue(*failure_);
      return;
    }
    if (activity_clock() < next_beat) continue;
    next_beat = activity_clock() + std::chrono::duration<double>(beat_every).count();
    beat();
  }
}

void World::beat() {
  const Message beat{
      .kind = Message::Kind::beat, .rank = rank_, .body = in_cbor(turned(activity_.state()))};
  for (size_t peer = 0; peer < peers_.size(); ++peer) send_to(peer, beat);
}

void World::send_to(size_t peer, const Message& message) {
  if (peers_[peer] && peers_[peer]->open()) peers_[peer]->send(message);
}

void World::read(size_t peer) {
  if (peers_[peer]->open()) {
    peers_[peer]->flush();
    for (const Message& message : peers_[peer]->receive()) handle(message);
  }
  if (!peers_[peer]->open()) miss(peer);  // perhaps since it had said who it is
}

void World::handle(const Message& message) {
  Heard& of = heard_.at(static_cast<size_t>(message.rank));
  of.at = activity_clock();
  switch (message.kind) {
    case Message::Kind::beat:
      of.state = turned(json::from_cbor(message.body));
      break;
    case Message::Kind::value:
    case Message::Kind::gathered:
      add_value(message);
      break;
    case Message::Kind::values:
      values_[message.number] = json::from_cbor(message.body);
      changed_.notify_all();
      break;
    case Message::Kind::failed:
      if (rank_ == 0)
        consider(json::from_cbor(message.body), false);
      else
        settle(json::from_cbor(message.body));
      break;
    case Message::Kind::bye:
      of.of = Heard::Of::ended;
      changed_.notify_all();
      break;
    case Message::Kind::hello:
      break;
  }
}

/// A connection has ended: of rank 0's with a rank, or of this one's with rank 0.
void World::miss(size_t peer) {
  const size_t lost = rank_ == 0 ? peer : 0;
  if (heard_[lost].of == Heard::Of::ended || leaving_ || failure_) return;
  const Failure failure{.kind = Failure::Kind::peer_lost,
                        .rank = static_cast<int>(lost),
                        .reason = "lost: its process was killed, or has crashed"};
  if (rank_ == 0)
    consider(failure, true);
  else
    settle(explained(failure, heard_now(), activity_clock()));
}

void World::add_value(const Message& message) {
  auto& parts = parts_[message.number];
  parts[message.rank] = message.body;
  if (parts.size() < static_cast<size_t>(size_)) return;
  std::vector<std::string> all;
  for (auto& [of, part] : parts) all.push_back(std::move(part));
  parts_.erase(message.number);
  if (message.kind == Message::Kind::value) {
    const Message values{
        .kind = Message::Kind::values, .number = message.number, .body = in_cbor(all)};
    for (size_t peer = 1; peer < peers_.size(); ++peer) send_to(peer, values);
  }
  values_[message.number] = std::move(all);
  changed_.notify_all();
}

std::vector<Heard> World::heard_now() const {
  std::vector<Heard> all = heard_;
  if (rank_ != 0)  // the others are rank 0's to hear
    for (size_t r = 1; r < all.size(); ++r) all[r].of = Heard::Of::others;
  all[static_cast<size_t>(rank_)] = {activity_.state(), activity_clock()};
  return all;
}

/// A process that is missing is the cause of what others have just reported.
void World::consider(const Failure& failure, bool missing) {
  using Kind = Failure::Kind;
  const bool causes = considered_ && missing && !missing_ && failure.rank != considered_->rank;
  if (failure_ || (considered_ && !causes)) return;
  const bool others_say_more =
      !missing && (failure.kind == Kind::deadline || failure.kind == Kind::error ||
                   failure.kind == Kind::peer_lost || failure.kind == Kind::wrong_numbers);
  considered_ = failure;
  missing_ = missing;
  settle_at_ = activity_clock() + (others_say_more ? hearing_all : 0);
  settle_when_due();
}

void World::settle_when_due() {
  if (!considered_ || failure_ || activity_clock() < settle_at_) return;
  settle(explained(*considered_, heard_now(), activity_clock()));
  tell_failure();
}

void World::tell_failure() {
  const Message message{.kind = Message::Kind::failed, .rank = 0, .body = in_cbor(*failure_)};
  for (size_t peer = 1; peer < peers_.size(); ++peer) send_to(peer, message);
}

void World::settle(const Failure& failure) {
  if (!failure_) failed_at_ = activity_clock();
  if (!failure_) failure_ = failure;
  changed_.notify_all();
}

std::vector<std::string> World::values(const std::string& mine, bool for_all) {
  check();
  Lock lock(mutex_);
  const uint64_t number = exchanges_++;
  const Message message{.kind = for_all ? Message::Kind::value : Message::Kind::gathered,
                        .rank = rank_,
                        .number = number,
                        .body = mine};
  if (rank_ == 0)
    add_value(message);
  else
    send_to(0, message);
  wake();
  if (rank_ != 0 && !for_all) return {};
  activity_.waits_for({"exchange", "world", number, static_cast<int64_t>(mine.size())});
  const double end = activity_clock() + options_.deadline;
  bool under_way = go_on_ != nullptr;
  while (!values_.contains(number)) {
    changed_.wait_for(lock, under_way ? std::chrono::microseconds(50) : 20ms);
    if (values_.contains(number)) break;  // a failure since then is the next call's
    lock.unlock();
    under_way = go_on();
    check();
    if (activity_clock() > end)
      raise(fail({.kind = Failure::Kind::deadline,
                  .rank = rank_,
                  .reason = fmt::format("rank {}: exchange {} ({} B) did not end within {} s",
                                        rank_, number, mine.size(), options_.deadline)}));
    lock.lock();
  }
  activity_.goes_on();
  auto found = values_.extract(number);
  return std::move(found.mapped());
}

void World::check() {
  Lock lock(mutex_);
  if (failure_) raise(*failure_);
  if (leaving_ || !options_.stop || !options_.stop()) return;
  // A launcher that has lost a process stops the others.
  changed_.wait_for(lock, std::chrono::duration<double>(stop_may_be_a_loss),
                    [&] { return failure_.has_value(); });
  if (failure_) raise(*failure_);
  throw Interrupted();
}

Failure World::fail(const Failure& failure) {
  Lock lock(mutex_);
  if (rank_ == 0)
    consider(failure, false);
  else if (!failure_) {
    beat();  // what this rank does belongs to it
    send_to(0, {.kind = Message::Kind::failed, .rank = rank_, .body = in_cbor(failure)});
  }
  wake();
  changed_.wait_for(lock, std::chrono::duration<double>(word_of_rank_0),
                    [&] { return failure_.has_value(); });
  if (!failure_) settle(explained(failure, heard_now(), activity_clock()));
  return *failure_;
}

std::optional<Failure> World::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

bool World::speaks() const {
  const Lock lock(mutex_);
  const bool lost =
      rank_ != 0 && (!peers_[0]->open() || activity_clock() - heard_[0].at > silence_of_rank_0);
  return rank_ == (lost ? 1 : 0);
}

void World::leave() {
  Lock lock(mutex_);
  if (leaving_) return;
  leaving_ = true;
  const Message bye{.kind = Message::Kind::bye, .rank = rank_};
  for (size_t peer = 0; peer < peers_.size(); ++peer) send_to(peer, bye);
  wake();
  // A connection that is closed before all has been read takes with it what was sent last.
  changed_.wait_for(lock, std::chrono::duration<double>(word_of_rank_0), [&] {
    for (size_t peer = 0; peer < peers_.size(); ++peer)
      if (peers_[peer] && peers_[peer]->open() && heard_[peer].of == Heard::Of::running)
        return false;
    return true;
  });
}

}  // namespace frugal::engine
