#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

/// Objects that outlive a device, because making them takes long.
namespace frugal::kernels::cuda {

/// Made once and used again, by a key. There are `most` of them: beyond that the one whose use is
/// the longest ago goes, when nobody has it any more. For one thread at a time.
template <class Key, class Value>
class Kept {
 public:
  explicit Kept(size_t most) : most_(most) {}

  /// make() returns a std::shared_ptr<Value>; what it throws changes nothing.
  template <class Make>
  std::shared_ptr<Value> get(const Key& key, const Make& make) {
    auto found = by_key_.find(key);
    if (found == by_key_.end()) {
      std::shared_ptr<Value> made = make();
      if (order_.size() >= most_) forget_oldest();
      order_.push_front({key, std::move(made)});
      found = by_key_.emplace(key, order_.begin()).first;
    }
    order_.splice(order_.begin(), order_, found->second);
    return order_.front().second;
  }

  /// True if get(key) may have another one go.
  bool full_without(const Key& key) const {
    return order_.size() >= most_ && !by_key_.contains(key);
  }

 private:
  using Order = std::list<std::pair<Key, std::shared_ptr<Value>>>;  // the last used first
  void forget_oldest() {
    by_key_.erase(order_.back().first);
    order_.pop_back();
  }

  size_t most_;
  Order order_;
  std::map<Key, typename Order::iterator> by_key_;
};

/// The process's own T of this key, made of `arguments` where there is none yet. It is never
/// destroyed: what belongs to a GPU must not be when the process ends, because CUDA has ended
/// before; and other threads may still use it then. T locks itself.
template <class T, class Key, class... Arguments>
T& of_process(const Key& key, Arguments&&... arguments) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<Key, T>;
  const std::lock_guard lock(mutex);
  return all.try_emplace(key, std::forward<Arguments>(arguments)...).first->second;
}

}  // namespace frugal::kernels::cuda
