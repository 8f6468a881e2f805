#include "kernels/virtual/attention_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/virtual/machine.h"

namespace frugal::kernels {
namespace {

constexpr double block_rows = 128;

/// A rate between two measured lengths: a line on a logarithmic scale of lengths.
double at_length(const std::vector<double>& lengths, const std::vector<double>& rates,
                 double length) {
  const auto above = std::ranges::lower_bound(lengths, length);
  if (above == lengths.begin()) return rates.front();
  if (above == lengths.end()) return rates.back();
  const auto i = static_cast<size_t>(above - lengths.begin());
  const double part = std::log(length / lengths[i - 1]) / std::log(lengths[i] / lengths[i - 1]);
  return rates[i - 1] + part * (rates[i] - rates[i - 1]);
}

void check(const JsonObject& entry, const AttentionRates& rates) {
  if (rates.source.empty()) entry.fail("source", "is empty; say where the rates come from");
  if (rates.sequence.empty() || !std::ranges::is_sorted(rates.sequence, std::less_equal<>()))
    entry.fail("sequence", "must be a list of rising lengths");
  for (const auto& [key, list] :
       {std::pair{"forward", &rates.forward}, {"backward", &rates.backward}})
    if (list->size() != rates.sequence.size())
      entry.fail(key, fmt::format("has {} rates; it must have one for each of {} lengths",
                                  list->size(), rates.sequence.size()));
  for (const auto& [key, list] : {std::pair{"sequence", &rates.sequence},
                                  {"forward", &rates.forward},
                                  {"backward", &rates.backward}})
    if (std::ranges::any_of(*list, [](double value) { return !(value > 0); }))
      entry.fail(key, "must have numbers above 0 alone");
  if (rates.head_size < 1) entry.fail("head_size", "must be at least 1");
  for (const auto& [key, value] : {std::pair{"deterministic", rates.deterministic},
                                   {"forward_dropout", rates.forward_dropout},
                                   {"backward_dropout", rates.backward_dropout}})
    if (!(value > 0 && value <= 1)) entry.fail(key, "must be above 0 and at most 1");
  for (const auto& [key, value] : {std::pair{"blocks", rates.blocks},
                                   {"forward_ramp", rates.forward_ramp},
                                   {"backward_ramp", rates.backward_ramp}})
    if (!(value >= 0)) entry.fail(key, "must be at least 0");
  if (rates.blocks == 0 && rates.forward_ramp + rates.backward_ramp > 0)
    entry.fail("blocks", "is missing; a ramp needs the blocks that the measurement had");
}

}  // namespace

std::vector<AttentionRates> read_attention_rates(const JsonObject& machine) {
  std::vector<AttentionRates> all;
  for (const JsonObject& entry : machine.objects("attention")) {
    entry.allow_only({"kernel", "head_size", "causal", "sequence", "forward", "backward", "blocks",
                      "deterministic", "forward_dropout", "backward_dropout", "forward_ramp",
                      "backward_ramp", "source"});
    const AttentionRates rates{.kernel = entry.require<std::string>("kernel"),
                               .head_size = entry.require<int64_t>("head_size"),
                               .causal = entry.require<bool>("causal"),
                               .sequence = entry.require<std::vector<double>>("sequence"),
                               .forward = entry.require<std::vector<double>>("forward"),
                               .backward = entry.require<std::vector<double>>("backward"),
                               .forward_dropout = entry.optional<double>("forward_dropout", 1),
                               .backward_dropout = entry.optional<double>("backward_dropout", 1),
                               .deterministic = entry.optional<double>("deterministic", 1),
                               .blocks = entry.optional<double>("blocks", 0),
                               .forward_ramp = entry.optional<double>("forward_ramp", 0),
                               .backward_ramp = entry.optional<double>("backward_ramp", 0),
                               .source = entry.require<std::string>("source")};
    check(entry, rates);
    all.push_back(rates);
  }
  return all;
}

nlohmann::json to_json(const std::vector<AttentionRates>& all) {
  auto list = nlohmann::json::array();
  for (const AttentionRates& one : all)
    list.push_back({{"kernel", one.kernel},
                    {"head_size", one.head_size},
                    {"causal", one.causal},
                    {"sequence", one.sequence},
                    {"forward", one.forward},
                    {"backward", one.backward},
                    {"forward_dropout", one.forward_dropout},
                    {"backward_dropout", one.backward_dropout},
                    {"deterministic", one.deterministic},
                    {"blocks", one.blocks},
                    {"forward_ramp", one.forward_ramp},
                    {"backward_ramp", one.backward_ramp},
                    {"source", one.source}});
  return list;
}

bool takes_flash_attention(double compute_capability, bool deterministic) {
  return compute_capability < 9 || (compute_capability >= 10 && deterministic);
}

AttentionClock::AttentionClock(const Machine& machine, const AttentionChoice& choice)
    : multiprocessors_(static_cast<double>(machine.multiprocessors)),
      deterministic_(choice.deterministic) {
  const bool flash =
      choice.by_transformer_engine &&
      takes_flash_attention(machine.libraries.compute_capability, choice.deterministic);
  for (const std::string_view kernel : choice.kernels) {
    if (!rates_.empty()) return;
    if (flash && kernel == "cudnn") continue;
    std::ranges::copy_if(machine.attention, std::back_inserter(rates_),
                         [&](const AttentionRates& one) { return one.kernel == kernel; });
  }
}

const AttentionRates& AttentionClock::nearest(const FusedAttention& attention) const {
  const auto distance = [&](const AttentionRates& one) {
    const double sizes = std::abs(
        std::log2(static_cast<double>(attention.q.cols()) / static_cast<double>(one.head_size)));
    return std::pair{one.causal != attention.causal, sizes};
  };
  return *std::ranges::min_element(rates_, {}, distance);
}

double AttentionClock::seconds(const FusedAttention& attention, double flops, bool forward) const {
  const AttentionRates& rates = nearest(attention);
  double share = deterministic_ && !forward ? rates.deterministic : 1;
  if (attention.dropout.active()) share *= forward ? rates.forward_dropout : rates.backward_dropout;
  const double rate = share * at_length(rates.sequence, forward ? rates.forward : rates.backward,
                                        static_cast<double>(attention.cols()));
  if (rates.blocks == 0) return flops / rate;
  const double ramp = (forward ? rates.forward_ramp : rates.backward_ramp) * multiprocessors_;
  const double blocks = static_cast<double>(attention.batch()) *
                        std::ceil(static_cast<double>(attention.rows()) / block_rows);
  return flops / rate * (1 + ramp / blocks) / (1 + ramp / rates.blocks);
}

}  // namespace frugal::kernels
