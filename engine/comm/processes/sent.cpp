#include "engine/comm/processes/sent.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace frugal::engine {
namespace {

/// A state with its texts, as it is sent: the texts of another process are nowhere here.
struct Beat {
  std::array<char, 24> name{}, group{}, not_finite_name{}, not_finite_group{};
  uint64_t number, not_finite_number;
  int64_t bytes, not_finite_bytes;
  double since_ago, not_finite_at;
  bool waiting;
};

void put(std::array<char, 24>& to, std::string_view text) { text.copy(to.data(), to.size() - 1); }

/// Texts of calls are few: each is kept once.
std::string_view kept(const char* text) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<std::string>> all;
  const std::lock_guard lock(mutex);
  auto& entry = all[text];
  if (!entry) entry = std::make_unique<std::string>(text);
  return *entry;
}

}  // namespace

std::string serialized(const Activity::State& state) {
  Beat beat{};
  put(beat.name, state.call.name);
  put(beat.group, state.call.group);
  put(beat.not_finite_name, state.not_finite.name);
  put(beat.not_finite_group, state.not_finite.group);
  beat.number = state.call.number;
  beat.not_finite_number = state.not_finite.number;
  beat.bytes = state.call.bytes;
  beat.not_finite_bytes = state.not_finite.bytes;
  beat.since_ago = activity_clock() - state.since;
  beat.not_finite_at = state.not_finite_at;
  beat.waiting = state.waiting;
  return {reinterpret_cast<const char*>(&beat), sizeof beat};
}

Activity::State parsed_state(const std::string& text) {
  Beat beat{};
  std::memcpy(&beat, text.data(), std::min(text.size(), sizeof beat));
  return {.call = {kept(beat.name.data()), kept(beat.group.data()), beat.number, beat.bytes},
          .waiting = beat.waiting,
          .since = activity_clock() - beat.since_ago,
          .not_finite = {kept(beat.not_finite_name.data()), kept(beat.not_finite_group.data()),
                         beat.not_finite_number, beat.not_finite_bytes},
          .not_finite_at = beat.not_finite_at};
}

std::string joined(const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) {
    const uint64_t size = value.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += value;
  }
  return all;
}

std::vector<std::string> separated(const std::string& all) {
  std::vector<std::string> values;
  for (size_t at = 0; at + sizeof(uint64_t) <= all.size();) {
    uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof size);
    values.push_back(all.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return values;
}

}  // namespace frugal::engine
