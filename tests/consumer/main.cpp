#include <fmt/format.h>

#include "engine/cluster/cluster.h"
#include "engine/train/trainer.h"
#include "kernels/virtual/machine.h"

using namespace frugal::engine;

// Trains four layers of the 22B model for a step, on a virtual machine's eight A100s, and prints in
// bytes what one of them holds at most, from the ledger.
int main() {
  RunConfig config;
  config.model = {.name = "22B",
                  .layers = 4,
                  .hidden = 6144,
                  .heads = 64,
                  .sequence = 2048,
                  .vocabulary = 51200};
  config.tensor_parallel = 8;
  config.sequence_parallel = true;
  config.recompute = Recompute::selective;
  config.type = DType::bf16;
  const auto cluster = make_virtual_cluster(config, frugal::kernels::find_machine("a100-selene"));
  Trainer(*cluster, config, {}).step(random_batch(config, 0));
  fmt::print("{}\n", cluster->rank(0).ledger.peak());
}
