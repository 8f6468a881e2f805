#pragma once
#include "engine/program/find_program.h"
#include "engine/train/module_run.h"
#include "tests/engine/support.h"

// What a training step takes as a program.
namespace frugal::testing {

/// A training step's peak and what a layer keeps, in bytes; on a device that counts.
struct Bytes {
  int64_t peak, layer, activation;
};
inline Bytes bytes_of(const RunConfig& config) {
  const auto cluster = counted_steps(config);
  const Ledger& ledger = cluster->rank(0).ledger;
  return {ledger.peak(), ledger.peak_in_layers(), ledger.peak(Kind::activation)};
}

/// The most bytes of a module alone.
inline int64_t peak_of(Module module, const RunConfig& config) {
  return ModuleRun(*make_virtual_cluster(config, find_machine("h200-hgx")), module)
      .memory()
      .peak_total;
}

/// Seconds of the second of two steps of one rank.
inline double step_on(const Machine& machine, const RunConfig& config) {
  const auto cluster = make_virtual_cluster(config, machine);
  Trainer trainer(*cluster, config, {.optimizer = {}, .steps = 2});
  (void)trainer.step(random_batch(config, 0));
  return trainer.step(random_batch(config, 1)).seconds;
}
inline double step_on(const std::string& machine, const RunConfig& config) {
  return step_on(find_machine(machine), config);
}

inline RunConfig as(RunConfig config, const std::string& program) {
  config.type = DType::bf16;
  config.program = find_program(program);
  return config;
}

/// The most bytes that gradients have in a program's step.
inline int64_t gradients(const RunConfig& config, const std::string& program) {
  return counted_steps(as(config, program))->rank(0).ledger.peak(Kind::gradient);
}

struct Sizes {
  explicit Sizes(const RunConfig& c)
      : hidden(c.model.sequence * c.micro_batch * c.model.hidden),
        inner(c.model.sequence * c.micro_batch * c.model.intermediate_size()),
        logits(c.model.sequence * c.micro_batch * c.model.vocabulary),
        layers(c.model.layers) {}
  int64_t hidden, inner, logits, layers;  // elements
};

}  // namespace frugal::testing
