#include "engine/comm/activity.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

namespace frugal::engine {

double activity_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Activity::Call::text() const {
  return fmt::format("{} {} of the {} group ({} B)", name, number, group, bytes);
}

std::string Activity::State::text(double now) const {
  const double seconds = now - since;
  if (call.name.empty()) return "has not communicated yet";
  return waiting ? fmt::format("waits for {} since {:.3g} s", call.text(), seconds)
                 : fmt::format("computes since {:.3g} s, after {}", seconds, call.text());
}

void Activity::waits_for(const Call& call) {
  const double now = activity_clock();
  const std::lock_guard lock(mutex_);
  state_.call = call;
  state_.waiting = true;
  state_.since = now;
}

void Activity::goes_on() {
  const double now = activity_clock();
  const std::lock_guard lock(mutex_);
  state_.waiting = false;
  waited_ += now - state_.since;
  state_.since = now;
}

void Activity::found_not_finite(const Call& call) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (!state_.not_finite.name.empty()) return;
  state_.not_finite = call;
  state_.not_finite_at = now.count();
}

Activity::State Activity::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Activity::reset() {
  const std::lock_guard lock(mutex_);
  state_ = {};
  state_.since = activity_clock();
}

namespace {

/// Returns true if no element has an exponent of ones. The loop has no exit, so it is vectorised.
template <class Bits>
bool all_finite(const void* data, int64_t count, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(data);
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i)
    found = static_cast<Bits>(found | static_cast<Bits>((bits[i] & exponent) == exponent));
  return found == 0;
}

bool is_finite(const View& view) {
  if (view.data == nullptr || !view.contiguous()) return true;
  switch (view.type) {
    case DType::f32:
      return all_finite<uint32_t>(view.data, view.size(), 0x7f800000U);
    case DType::bf16:
      return all_finite<uint16_t>(view.data, view.size(), 0x7f80U);
    case DType::f64:
      return all_finite<uint64_t>(view.data, view.size(), 0x7ff0000000000000U);
    case DType::u8:
    case DType::i32:
      break;
  }
  return true;
}

class ObservedWork final : public Pending::Work {
 public:
  ObservedWork(Activity& activity, const Activity::Call& call, Pending inner)
      : activity_(activity), call_(call), inner_(std::move(inner)) {}
  void wait() override {
    // What a rank did last is what it failed in, not what it lets go of.
    if (std::uncaught_exceptions() > exceptions_) return inner_.wait();
    activity_.waits_for(call_);
    inner_.wait();
    activity_.goes_on();
  }

 private:
  Activity& activity_;
  const Activity::Call call_;
  Pending inner_;
  const int exceptions_ = std::uncaught_exceptions();
};

class ObservedCommunicator final : public Communicator {
 public:
  ObservedCommunicator(Communicator& inner, Activity& activity, std::string_view group,
                       uint64_t& count)
      : inner_(inner), activity_(activity), group_(group), count_(count) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool whole() const override { return inner_.whole(); }

  Pending all_reduce(const View& data) override {
    return observe("all-reduce", data, [&] { return inner_.all_reduce(data); });
  }
  Pending all_gather(const View& shard, const View& all) override {
    return observe("all-gather", shard, [&] { return inner_.all_gather(shard, all); });
  }
  Pending reduce_scatter(const View& all, const View& shard) override {
    return observe("reduce-scatter", all, [&] { return inner_.reduce_scatter(all, shard); });
  }
  Pending all_to_all(const View& from, const View& to) override {
    return observe("all-to-all", from, [&] { return inner_.all_to_all(from, to); });
  }
  Pending broadcast(const View& data, int root) override {
    return observe("broadcast", data, [&] { return inner_.broadcast(data, root); });
  }
  Pending shift(const View& from, const View& to) override {
    return observe("shift", from, [&] { return inner_.shift(from, to); });
  }
  Pending send(const View& data, int to) override {
    return observe("send", data, [&] { return inner_.send(data, to); });
  }
  Pending receive(const View& data, int from) override {
    return started({"receive", group_, count_++, data.bytes()}, inner_.receive(data, from));
  }
  void barrier() override {
    activity_.waits_for({"barrier", group_, count_++, 0});
    inner_.barrier();
    activity_.goes_on();
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  template <class Start>
  Pending observe(const char* name, const View& operand, Start start) {
    if (size() == 1) return start();
    const Activity::Call call{name, group_, count_++, operand.bytes()};
    if (!is_finite(operand)) activity_.found_not_finite(call);
    return started(call, start());
  }
  Pending started(const Activity::Call& call, Pending inner) {
    return Pending(std::make_unique<ObservedWork>(activity_, call, std::move(inner)));
  }

  Communicator& inner_;
  Activity& activity_;
  const std::string group_;
  uint64_t& count_;
};

}  // namespace

ObservedGroup::ObservedGroup(std::unique_ptr<Group> group, const std::vector<Activity*>& activities,
                             std::string_view name)
    : group_(std::move(group)), counts_(activities.size()) {
  for (size_t i = 0; i < activities.size(); ++i)
    communicators_.push_back(
        activities[i] == nullptr
            ? nullptr
            : std::make_unique<ObservedCommunicator>(group_->communicator(static_cast<int>(i)),
                                                     *activities[i], name, counts_[i]));
}

ObservedGroup::~ObservedGroup() = default;

void ObservedGroup::reset() {
  group_->reset();
  counts_.assign(counts_.size(), 0);
}

}  // namespace frugal::engine
