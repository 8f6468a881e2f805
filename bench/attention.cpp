// Fused attention against separate products and softmax with dropout, causal, as a GPT's layer has
// them: q, k and v inside one tensor. Both sides' work is that of the visible pairs, so the ratio
// is one of times.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/benchmarks.h"
#include "bench/timed.h"

namespace frugal::bench {
namespace {

constexpr int64_t head_size = 64;

/// So many heads of all sequences, of s tokens each.
struct HeadsAndTokens {
  int64_t heads, s;
  std::string name() const { return fmt::format("{}x{}", heads, s); }
};
constexpr HeadsAndTokens attention_shapes[] = {{64, 512}, {32, 1024}, {16, 2048}};

/// What both ways read and write, and the fused operations on it.
struct FusedWay : OneDevice {
  Buffer qkv, dqkv, y, dy, log_sum_exp;
  FusedAttention fused;
  FusedAttentionBackward fused_backward;

  FusedWay(const Target& target, DType type, const HeadsAndTokens& of)
      : OneDevice(target),
        qkv(device, type, {of.s, of.heads, 3 * head_size}),
        dqkv(device, type, {of.s, of.heads, 3 * head_size}),
        y(device, type, {of.s, of.heads, head_size}),
        dy(device, type, {of.s, of.heads, head_size}),
        log_sum_exp(device, accumulation_type(type), {of.heads, of.s}) {
    const auto part = [&](const Buffer& b, int64_t which, int64_t parts) {
      return b.view().strided(which * head_size, {of.heads, of.s, head_size},
                              {parts * head_size, of.heads * parts * head_size, 1});
    };
    fused = {.q = part(qkv, 0, 3),
             .k = part(qkv, 1, 3),
             .v = part(qkv, 2, 3),
             .y = part(y, 0, 1),
             .log_sum_exp = log_sum_exp.view(),
             .scale = 1 / std::sqrt(static_cast<float>(head_size)),
             .causal = true,
             .dropout = {0.1F, {1, 2, 3}, {}}};
    fused_backward = {.forward = fused,
                      .dy = part(dy, 0, 1),
                      .dq = part(dqkv, 0, 3),
                      .dk = part(dqkv, 1, 3),
                      .dv = part(dqkv, 2, 3)};
  }

  /// FLOPs; in the backward pass the separate way has no product to compute again.
  double forward_work() const { return fused.cost().flops; }
  double backward_work() const { return forward_work() * 4 / FusedAttention::products; }

  void forward() { device.execute(fused); }
  void backward() { device.execute(fused_backward); }
};

/// The same through tensors of all pairs.
struct SeparateWay : FusedWay {
  Buffer p, dropped, dscores;

  SeparateWay(const Target& target, DType type, const HeadsAndTokens& of)
      : FusedWay(target, type, of),
        p(device, type, {of.heads, of.s, of.s}),
        dropped(device, type, {of.heads, of.s, of.s}),
        dscores(device, type, {of.heads, of.s, of.s}) {}

  void forward() {
    device.execute(Gemm{.a = fused.q, .b = fused.k, .c = p.view(), .transpose_b = true});
    device.execute(Softmax{.x = p.view(),
                           .p = p.view(),
                           .dropped = dropped.view(),
                           .scale = fused.scale,
                           .causal = fused.causal,
                           .dropout = fused.dropout});
    device.execute(Gemm{.a = dropped.view(), .b = fused.v, .c = fused.y});
  }
  void backward() {
    const auto& [of, dy, dq, dk, dv] = fused_backward;
    device.execute(Gemm{.a = dropped.view(), .b = dy, .c = dv, .transpose_a = true});
    device.execute(Gemm{.a = dy, .b = of.v, .c = dscores.view(), .transpose_b = true});
    device.execute(SoftmaxBackward{.dy = dscores.view(),
                                   .p = p.view(),
                                   .dx = dscores.view(),
                                   .scale = of.scale,
                                   .causal = of.causal,
                                   .dropout = of.dropout});
    device.execute(Gemm{.a = dscores.view(), .b = of.k, .c = dq});
    device.execute(Gemm{.a = dscores.view(), .b = of.q, .c = dk, .transpose_a = true});
  }
};

template <class Way>
std::unique_ptr<CaseRun> run_of_way(const Target& target, DType type, const HeadsAndTokens& of,
                                    bool backward) {
  const auto way = std::make_shared<Way>(target, type, of);
  if (!backward)
    return std::make_unique<Timed>(way->forward_work(), "FLOP",
                                   timed_on(way->device, [way] { way->forward(); }));
  way->forward();  // what the backward pass begins with
  return std::make_unique<Timed>(way->backward_work(), "FLOP",
                                 timed_on(way->device, [way] { way->backward(); }));
}

BenchmarkAxis shape_axis() {
  BenchmarkAxis axis{"shape", {}};
  for (const HeadsAndTokens& of : attention_shapes) axis.values.push_back(of.name());
  return axis;
}

const HeadsAndTokens& shape_at(const Point& point) {
  return *std::find_if(std::begin(attention_shapes), std::end(attention_shapes),
                       [&](const auto& of) { return of.name() == point.at("shape"); });
}

}  // namespace

const Benchmark& attention() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "attention",
      .title = "Fused causal attention, against separate products and softmax",
      .axes = {{"type", {"f32", "bf16"}},
               shape_axis(),
               {"pass", {"forward", "backward"}},
               {"by", {"fused", "separate"}}},
      .at = [](const Point& point) -> std::optional<BenchmarkCase> {
        const auto run = point.at("by") == "fused" ? run_of_way<FusedWay> : run_of_way<SeparateWay>;
        const bool backward = point.at("pass") == "backward";
        return without_model([run, type = type_at(point), of = shape_at(point), backward](
                                 const Target& target) { return run(target, type, of, backward); });
      },
      .by_turns = {"by"},
      .reference = Reference{"by", {"separate"}},
      .columns = {{"GFLOP/s", metric::time, Shows::rate, 1e9},
                  {"times separate's", metric::time, Shows::speed}}};
  return benchmark;
}

}  // namespace frugal::bench
