#include "tests/emulator/meeting.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/comm/reduce.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"

namespace emulator {
namespace {

using Parts = std::vector<std::optional<Part>>;

size_t bytes_of(const Part& part) { return static_cast<size_t>(part.count * size_of(part.type)); }

/// Where the library would hang, or write what nobody asked for.
void check(const Parts& parts) {
  constexpr std::array names = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                "message"};
  const Part& first = *parts.front();
  for (const auto& part : parts) {
    if (part->joint == first.joint && part->count == first.count && part->type == first.type &&
        part->root == first.root)
      continue;
    for (const auto& each : parts)
      std::fprintf(stderr, "emulator: %s of %lld elements of type %s, root %d\n",
                   names.at(static_cast<size_t>(each->joint)), static_cast<long long>(each->count),
                   name_of(each->type).data(), each->root);
    std::fprintf(stderr, "emulator: that is not the same for all\n");
    std::abort();
  }
}

void reduce(const Parts& parts) {
  const Part& first = *parts.front();
  const auto ranks = static_cast<int>(parts.size());
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const auto& part : parts) {
    from.push_back(part->from);
    to.push_back(part->to);
  }
  if (first.joint == Joint::all_reduce)
    return frugal::engine::reduce_into(first.type, from.data(), ranks, 0, first.count, to.data(),
                                       ranks, 0);
  for (int r = 0; r < ranks; ++r)
    frugal::engine::reduce_into(first.type, from.data(), ranks, first.count * r, first.count,
                                &to[static_cast<size_t>(r)], 1, 0);
}

void move(const Part& from, void* to) { std::memmove(to, from.from, bytes_of(from)); }

void gather(const Parts& parts) {
  for (const auto& to : parts)
    for (size_t r = 0; r < parts.size(); ++r)
      move(*parts[r], static_cast<char*>(to->to) + r * bytes_of(*parts[r]));
}

}  // namespace

bool Clique::join(int rank, int gpu) {
  if (std::count(gpus_.begin(), gpus_.end(), gpu) > 0) return false;
  int& own = gpus_.at(static_cast<size_t>(rank));
  if (own != absent) return false;
  own = gpu;
  return true;
}

bool Clique::complete() const { return std::count(gpus_.begin(), gpus_.end(), absent) == 0; }

bool Clique::left() const {
  return left_ == size() - std::count(gpus_.begin(), gpus_.end(), absent);
}

void Clique::call(const std::vector<Step>& steps) {
  for (const Step& step : steps) called_.emplace(step.between, step.place);
}

bool Clique::connected(const std::vector<Step>& steps) const {
  return std::all_of(steps.begin(), steps.end(), [this](const Step& step) {
    return step.between == everybody ||
           (called_.contains({step.between, 0}) && called_.contains({step.between, 1}));
  });
}

void Clique::issue(cudaStream_t stream, const std::vector<Step>& steps) {
  std::vector<std::shared_ptr<const Moment>> awaited;
  for (const Step& step : steps) {
    const Key key{step.between, issued_[{step.between, step.place}]++};
    Meeting& meeting = meetings_[key];
    meeting.parts.resize(step.between == everybody ? gpus_.size() : 2);
    meeting.over->passed = aborted_;
    awaited.push_back(meeting.over);
    push(stream,
         [clique = shared_from_this(), key, step] { clique->arrive(key, step.place, step.part); });
  }
  for (auto& moment : awaited) hold(stream, std::move(moment));
}

void Clique::arrive(const Key& key, size_t place, const Part& part) {
  if (aborted_) return;
  Meeting& meeting = meetings_.at(key);
  meeting.parts.at(place) = part;
  if (std::any_of(meeting.parts.begin(), meeting.parts.end(),
                  [](const auto& each) { return !each; }))
    return;
  check(meeting.parts);
  if (gpu().computes) perform(meeting.parts);
  meeting.over->passed = true;
  meetings_.erase(key);
}

void Clique::perform(const Parts& parts) const {
  std::vector<std::unique_ptr<arena::Open>> open;
  for (const int gpu : gpus_) open.push_back(std::make_unique<arena::Open>(gpu));
  switch (parts.front()->joint) {
    case Joint::all_reduce:
    case Joint::reduce_scatter:
      return reduce(parts);
    case Joint::all_gather:
      return gather(parts);
    case Joint::broadcast:
      for (const auto& part : parts) move(*parts[static_cast<size_t>(part->root)], part->to);
      return;
    case Joint::message:
      return move(*parts.front(), parts.back()->to);
  }
}

void Clique::abort() {
  aborted_ = true;
  for (auto& [key, meeting] : meetings_) meeting.over->passed = true;
}

}  // namespace emulator
