#pragma once
#include <map>
#include <mutex>
#include <utility>

namespace frugal::kernels::cuda {

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
