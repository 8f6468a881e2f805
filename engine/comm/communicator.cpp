#include "engine/comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace frugal::engine {
namespace {

std::string elements(const View& view) {
  return fmt::format("{} {}", view.size(), name_of(view.type));
}

bool can_be_summed(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f64;
}

bool has_peer(Call::Kind kind) {
  return kind == Call::Kind::broadcast || kind == Call::Kind::send || kind == Call::Kind::receive;
}

/// Rule that the operands of a call by one of so many ranks break; empty where they keep all.
std::string broken_rule(const Call& call, int ranks) {
  using Kind = Call::Kind;
  const auto& [kind, from, to, peer] = call;
  if (!from.contiguous() || !to.contiguous()) return "views must be contiguous";
  const bool sums = kind == Kind::all_reduce || kind == Kind::reduce_scatter;
  if (sums && !can_be_summed(from.type))
    return fmt::format("sums f32, bf16 or f64, not {}", name_of(from.type));
  if (kind == Kind::all_gather || kind == Kind::reduce_scatter) {
    const View &shard = kind == Kind::all_gather ? from : to,
               &all = kind == Kind::all_gather ? to : from;
    if (all.type != shard.type || all.size() != shard.size() * ranks)
      return fmt::format("{} is not {} shards of {}", elements(all), ranks, elements(shard));
  } else if (from.type != to.type || from.size() != to.size()) {
    return fmt::format("{} cannot become {}", elements(from), elements(to));
  }
  if (kind == Kind::all_to_all && from.size() % ranks != 0)
    return fmt::format("{} cannot be divided into {} equal parts", elements(from), ranks);
  if (has_peer(kind) && (peer < 0 || peer >= ranks))
    return fmt::format("there is no rank {} in a group of {}", peer, ranks);
  return "";
}

}  // namespace

std::string text_of(std::string_view name, const View& operand) {
  return operand.empty() ? std::string(name) : fmt::format("{} of {}", name, elements(operand));
}

std::string Call::text() const { return text_of(name_of(kind), from); }

int Group::size() const {
  const auto here =
      std::ranges::find_if(communicators_, [](const auto& c) { return c != nullptr; });
  return (*here)->size();
}

void Call::check(int ranks) const {
  if (const std::string rule = broken_rule(*this, ranks); !rule.empty())
    throw std::invalid_argument(fmt::format("{}: {}", name_of(kind), rule));
}

}  // namespace frugal::engine
