// Fused attention against separate products and softmax with dropout, causal, as a GPT's layer has
// them: q, k and v inside one tensor. Both sides' work is that of the visible pairs, so the ratio
// is one of times.
#include <fmt/format.h>

#include <cmath>

#include "bench/compare/contest.h"
#include "kernels/cpu/device.h"

namespace frugal::bench {
namespace {

constexpr int64_t head_size = 64;

/// The operands of both ways.
struct Attention {
  Buffer qkv, dqkv, y, dy, log_sum_exp, p, dropped, dscores;
  FusedAttention forward;
  FusedAttentionBackward backward;

  Attention(Device& device, DType type, int64_t batch, int64_t s)
      : qkv(device, type, {s, batch, 3 * head_size}),
        dqkv(device, type, {s, batch, 3 * head_size}),
        y(device, type, {s, batch, head_size}),
        dy(device, type, {s, batch, head_size}),
        log_sum_exp(device, accumulation_type(type), {batch, s}),
        p(device, type, {batch, s, s}),
        dropped(device, type, {batch, s, s}),
        dscores(device, type, {batch, s, s}) {
    const auto part = [&](const Buffer& b, int64_t which, int64_t of) {
      return b.view().strided(which * head_size, {batch, s, head_size},
                              {of * head_size, batch * of * head_size, 1});
    };
    forward = {.q = part(qkv, 0, 3),
               .k = part(qkv, 1, 3),
               .v = part(qkv, 2, 3),
               .y = part(y, 0, 1),
               .log_sum_exp = log_sum_exp.view(),
               .scale = 1 / std::sqrt(static_cast<float>(head_size)),
               .causal = true,
               .dropout = {0.1F, {1, 2, 3}, {}}};
    backward = {.forward = forward,
                .dy = part(dy, 0, 1),
                .dq = part(dqkv, 0, 3),
                .dk = part(dqkv, 1, 3),
                .dv = part(dqkv, 2, 3)};
  }

  void separate_forward(Device& device) const {
    const FusedAttention& f = forward;
    device.execute(Gemm{.a = f.q, .b = f.k, .c = p.view(), .transpose_b = true});
    device.execute(Softmax{.x = p.view(),
                           .p = p.view(),
                           .dropped = dropped.view(),
                           .scale = f.scale,
                           .causal = f.causal,
                           .dropout = f.dropout});
    device.execute(Gemm{.a = dropped.view(), .b = f.v, .c = f.y});
  }
  void separate_backward(Device& device) const {
    const FusedAttention& f = forward;
    const FusedAttentionBackward& g = backward;
    device.execute(Gemm{.a = dropped.view(), .b = g.dy, .c = g.dv, .transpose_a = true});
    device.execute(Gemm{.a = g.dy, .b = f.v, .c = dscores.view(), .transpose_b = true});
    device.execute(SoftmaxBackward{.dy = dscores.view(),
                                   .p = p.view(),
                                   .dx = dscores.view(),
                                   .scale = f.scale,
                                   .causal = f.causal,
                                   .dropout = f.dropout});
    device.execute(Gemm{.a = dscores.view(), .b = f.k, .c = g.dq});
    device.execute(Gemm{.a = dscores.view(), .b = f.q, .c = g.dk, .transpose_a = true});
  }
};

}  // namespace

void compare_attention(Report& report) {
  CpuDevice device(report.options().threads);
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [batch, s] : {std::pair<int64_t, int64_t>{64, 512}, {32, 1024}, {16, 2048}}) {
      const auto name = [&, b = batch, n = s](const char* pass) {
        return fmt::format("{}/{}x{}/{}", pass, b, n, name_of(type));
      };
      if (!report.wants(name("forward")) && !report.wants(name("backward"))) continue;
      const Attention attention(device, type, batch, s);
      attention.separate_forward(device);  // what the backward passes begin with
      device.execute(attention.forward);
      const double forward = attention.forward.cost().flops;
      // The separate way has no product to compute again.
      const double backward = forward * 4 / FusedAttention::products;
      if (report.wants(name("forward")))
        report.add({name("forward"), forward, forward, [&] { device.execute(attention.forward); },
                    [&] { attention.separate_forward(device); }});
      if (report.wants(name("backward")))
        report.add({name("backward"), backward, backward,
                    [&] { device.execute(attention.backward); },
                    [&] { attention.separate_backward(device); }});
    }
}

}  // namespace frugal::bench
