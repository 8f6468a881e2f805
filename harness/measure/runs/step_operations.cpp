#include "harness/measure/runs/step_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/measure/statistics.h"
#include "kernels/virtual/measured_operations.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

std::array<int64_t, 4> product_of(const Operation& operation) {
  const auto sizes = [](const Gemm& gemm) {
    return std::array{gemm.batch(), gemm.m(), gemm.n(), gemm.k()};
  };
  return std::visit(
      [&](const auto& op) -> std::array<int64_t, 4> {
        if constexpr (std::is_same_v<std::decay_t<decltype(op)>, Gemm>)
          return sizes(op);
        else if constexpr (requires { op.gemm; })
          return sizes(op.gemm);
        else
          return {};
      },
      operation);
}

double count_of_step(const AlikeOperations& alike, int64_t steps) {
  return static_cast<double>(alike.seconds.size()) / static_cast<double>(steps);
}

/// "4 x 512 x 64 x 512", without a batch of one.
std::string product_text(const std::array<int64_t, 4>& product) {
  const auto& [batch, m, n, k] = product;
  if (batch == 0) return "";
  return (batch > 1 ? fmt::format("{} x ", batch) : "") + fmt::format("{} x {} x {}", m, n, k);
}

}  // namespace

double AlikeOperations::seconds_of_step(int64_t steps) const {
  return count_of_step(*this, steps) * median(seconds);
}

StepOperations::StepOperations(Cluster& cluster) {
  for (int i = 0; i < cluster.local_ranks(); ++i)
    if (Rank& rank = cluster.rank(i); rank.first_of_stage())
      stages_.push_back({&rank.device, {}});  // ranks are numbered by stage
}

void StepOperations::time(bool on) {
  for (Stage& stage : stages_) {
    stage.device->time_operations({});
    if (!on) continue;
    stage.device->time_operations([&stage](const Operation& operation, double seconds) {
      const Cost cost = cost_of(operation);
      const Size size{form_of(operation), product_of(operation), cost.flops, cost.bytes};
      AlikeOperations& alike = stage.operations[size];
      if (alike.seconds.empty()) alike = {std::get<0>(size), std::get<1>(size), cost, {}};
      alike.seconds.push_back(seconds);
    });
  }
}

StepOperations::~StepOperations() { time(false); }

std::vector<std::vector<AlikeOperations>> StepOperations::of_steps(int64_t steps) const {
  std::vector<std::vector<AlikeOperations>> all;
  for (const Stage& stage : stages_) {
    std::vector<AlikeOperations>& sorted = all.emplace_back();
    for (const auto& [size, alike] : stage.operations) sorted.push_back(alike);
    std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
      return a.seconds_of_step(steps) > b.seconds_of_step(steps);
    });
  }
  return all;
}

Table step_operations_table(const std::vector<AlikeOperations>& operations, int64_t steps) {
  Table table{{{"operation"},
               {"batch x m x n x k"},
               {"count", true},
               {"ms", true},
               {"%", true},
               {"GFLOP/s", true},
               {"GB/s", true}},
              {}};
  double all = 0;
  for (const AlikeOperations& alike : operations) all += alike.seconds_of_step(steps);
  for (const AlikeOperations& alike : operations) {
    const double each = median(alike.seconds), step = alike.seconds_of_step(steps);
    const auto rate = [&](double work) {
      return work > 0 && each > 0 ? fmt::format("{:.1f}", work / each / 1e9) : "";
    };
    table.rows.push_back(
        {alike.form, product_text(alike.product), format_number(count_of_step(alike, steps)),
         fmt::format("{:.3f}", 1e3 * step), fmt::format("{:.1f}", 100 * step / all),
         rate(alike.cost.flops), rate(alike.cost.bytes)});
  }
  table.rows.push_back({"all", "", "", fmt::format("{:.3f}", 1e3 * all), "100.0", "", ""});
  return table;
}

json to_json(const std::vector<std::vector<AlikeOperations>>& stages, int64_t steps) {
  json list = json::array();
  for (const std::vector<AlikeOperations>& operations : stages) {
    json of_stage = json::array();
    for (const AlikeOperations& alike : operations)
      of_stage.push_back({{"operation", alike.form},
                          {"product", alike.product[0] > 0 ? json(alike.product) : json(nullptr)},
                          {"count", count_of_step(alike, steps)},
                          {"flops", alike.cost.flops},
                          {"bytes", alike.cost.bytes},
                          {"seconds", alike.seconds}});
    list.push_back({{"stage", list.size()}, {"operations", of_stage}});
  }
  return list;
}

}  // namespace frugal::harness
