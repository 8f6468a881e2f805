#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>

#include "engine/comm/local.h"
#include "engine/train/trainer.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/support/message_of.h"

namespace frugal::testing {
using namespace engine;

/// A GPT small enough for every configuration, with everything the parallelism must divide.
inline RunConfig small_gpt() {
  RunConfig c;
  c.model = {.name = "test",
             .layers = 2,
             .hidden = 64,
             .heads = 8,
             .sequence = 32,
             .vocabulary = 64,
             .dropout = 0.1};
  c.micro_batch = 2;
  c.seed = 7;
  return c;
}

/// A BERT as small: sees both ways, and tells hidden tokens.
inline RunConfig small_bert() {
  RunConfig c = small_gpt();
  c.model.causal = false;
  c.model.objective = Objective::masked_token;
  return c;
}

/// A Llama as small: grouped queries, a gated unit, rotary positions, an output layer
/// of its own.
inline RunConfig small_llama() {
  RunConfig c = small_gpt();
  ModelConfig& m = c.model;
  m.kv_heads = 2;
  m.intermediate = 96;
  m.dropout = 0;
  m.norm = NormKind::rms;
  m.mlp = MlpKind::swiglu;
  m.bias = BiasKind::none;
  m.positions = PositionKind::rotary;
  m.tied = false;
  c.attention = AttentionKind::fused;
  return c;
}

/// A Llama with all that Gemma 2 adds; caps that weights of this size feel, and a window that hides
/// something.
inline RunConfig small_gemma() {
  RunConfig c = small_llama();
  ModelConfig& m = c.model;
  m.head_width = 16;
  m.mlp = MlpKind::geglu;
  m.tied = m.post_norms = m.scaled_embedding = true;
  m.query_scale = 24;
  m.attention_softcap = 0.5;
  m.logit_softcap = 0.5;
  m.window = 8;
  m.window_period = 2;
  return c;
}

/// One microbatch's weights, logits, loss and gradients under a configuration.
inline HostTensors snapshot_of(const RunConfig& config, const MicroBatch& batch) {
  const auto cluster = make_cpu_cluster(config, 2);
  return Trainer(*cluster, config, {}).snapshot(batch);
}

/// A batch without tokens, for devices that do not compute.
inline Batch empty_batch(const RunConfig& config) {
  return Batch(static_cast<size_t>(config.batch_microbatches()));
}

/// A described machine on which a run has made steps, by an optimizer that does not clip. It has
/// given back what the run held between them.
inline std::unique_ptr<Cluster> counted_steps(const RunConfig& config, size_t steps = 1,
                                              const std::string& machine = "h200-hgx") {
  auto cluster = make_virtual_cluster(config, find_machine(machine));
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}});
  (void)trainer.run(std::vector<Batch>(steps, empty_batch(config)));
  return cluster;
}

/// Error that a run ends with.
inline std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const DeadlinePassed& e) {
    return std::string("deadline: ") + e.what();
  } catch (const OutOfMemory& e) {
    return std::string("memory: ") + e.what();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

/// Expects validate() to refuse a run with a line that contains `rule`.
inline void expect_refused(const RunConfig& config, std::string_view rule) {
  const std::string said = kernels::message_of<kernels::InputError>([&] { config.validate(); });
  EXPECT_NE(said.find(rule), std::string::npos) << said << "\nand not " << rule;
}

/// The groups of a rank that is alone in all.
inline Communicators alone_in_all(LocalGroup& one) {
  return Communicators::from(
      [&](const GroupSpec&) -> Communicator& { return one.communicator(0); });
}

/// max |a − b| / max |b|, and ∞ where one has what the other has not.
inline double relative_error(const HostTensor& a, const HostTensor& b) {
  if (a.shape != b.shape) return INFINITY;
  double difference = 0;
  double magnitude = 0;
  for (size_t i = 0; i < b.values.size(); ++i) {
    if (!std::isfinite(a.values[i])) return INFINITY;
    difference = std::max(difference, std::abs(a.values[i] - b.values[i]));
    magnitude = std::max(magnitude, std::abs(b.values[i]));
  }
  return magnitude == 0 ? difference : difference / magnitude;
}

struct WorstError {
  double value = 0;
  std::string tensor = "none";
};
/// The worst relative error over all tensors of `expected` whose names start with a prefix.
inline WorstError worst_error(const HostTensors& actual, const HostTensors& expected,
                              const std::string& prefix = "") {
  WorstError worst;
  for (const auto& [name, tensor] : expected) {
    if (name.rfind(prefix, 0) != 0) continue;
    const auto found = actual.find(name);
    const double error = found == actual.end() ? INFINITY : relative_error(found->second, tensor);
    if (!(error <= worst.value)) worst = {error, name};
  }
  return worst;
}

}  // namespace frugal::testing
