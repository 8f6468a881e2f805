#include "kernels/virtual/machine_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace frugal::kernels {
namespace {

using Software = Machine::Software;
using Messages = Machine::Messages;

constexpr std::array<std::pair<std::string_view, bool Software::*>, 9> kernels{
    {{"bias", &Software::bias},
     {"gelu", &Software::gelu},
     {"dropout", &Software::dropout},
     {"mask", &Software::mask},
     {"dropout-add", &Software::dropout_add},
     {"residual", &Software::residual},
     {"bias-gradient", &Software::bias_gradient},
     {"accumulation", &Software::accumulation},
     {"clipping", &Software::clipping}}};

constexpr std::array<std::pair<std::string_view, Messages>, 3> messages{
    {{"beside", Messages::beside}, {"blocking", Messages::blocking}, {"serial", Messages::serial}}};

/// The value of this name; `entry` has it.
template <class T, size_t n>
T named(const std::array<std::pair<std::string_view, T>, n>& all, const std::string& name,
        const JsonObject& entry) {
  for (const auto& [known, value] : all)
    if (known == name) return value;
  std::vector<std::string_view> names;
  for (const auto& each : all) names.push_back(each.first);
  entry.fail("value", fmt::format("has \"{}\"; allowed are {}", name, fmt::join(names, ", ")));
}

/// {"value", "source"}, the source not empty.
JsonObject sourced(const JsonObject& group, std::string_view key) {
  JsonObject entry = group.object(key);
  entry.allow_only({"value", "source"});
  if (entry.require<std::string>("source").empty())
    entry.fail("source", "is empty; say where the value comes from");
  return entry;
}

}  // namespace

Machine::Software read_software(const JsonObject& software) {
  software.allow_only({"separate_kernels", "messages", "synchronised_passes", "sharded_messages"});
  Software read;
  const JsonObject separate = sourced(software, "separate_kernels");
  for (const auto& name : separate.require<std::vector<std::string>>("value"))
    read.*named(kernels, name, separate) = true;
  const JsonObject kind = sourced(software, "messages");
  read.messages = named(messages, kind.require<std::string>("value"), kind);
  read.synchronised_passes = sourced(software, "synchronised_passes").require<bool>("value");
  read.sharded_messages = sourced(software, "sharded_messages").require<bool>("value");
  return read;
}

std::string in_words(const Machine::Software& software) {
  std::string words;
  for (const auto& [name, part] : kernels)
    if (software.*part) words += fmt::format("{} ", name);
  for (const auto& [name, kind] : messages)
    if (kind == software.messages) words += name;
  if (software.synchronised_passes) words += " synchronised";
  if (software.sharded_messages) words += " sharded";
  return words;
}

}  // namespace frugal::kernels
