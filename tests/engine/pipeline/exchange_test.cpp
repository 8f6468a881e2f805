// How long pipelines take whose stages exchange messages (Messages::exchanged).
#include <gtest/gtest.h>

#include "kernels/virtual/cost_model.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

using namespace testing;

constexpr int stages = 4;

/// Nodes of one device each, whose messages take far longer than what is computed; those of both
/// ways at once have this part of the network each.
Machine slow_network(double exchange_fraction) {
  Machine machine = find_machine("a100-selene");
  machine.devices_per_node = 1;
  machine.network_bandwidth = 1e3;
  machine.message_fraction = 1;
  machine.exchange_fraction = exchange_fraction;
  return machine;
}

RunConfig pipeline(ScheduleKind schedule, int64_t microbatches) {
  RunConfig config = small_gpt();
  config.model.layers = stages;
  config.model.tied = false;
  config.pipeline_parallel = stages;
  config.schedule = schedule;
  config.microbatches = microbatches;
  config.program.device.messages.kind = Messages::exchanged;
  return config;
}

/// Seconds of all steps, in messages of one way alone.
double messages(const RunConfig& config, size_t steps = 1, double exchange_fraction = 0.5) {
  const Machine machine = slow_network(exchange_fraction);
  const auto cluster = make_virtual_cluster(config, machine);
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}, .steps = 4});
  const Batch batch(static_cast<size_t>(config.batch_microbatches()));
  double seconds = 0;
  for (const StepResult& step : trainer.run(std::vector<Batch>(steps, batch)))
    seconds += step.seconds;
  const auto bytes = static_cast<double>(config.model.sequence * config.micro_batch *
                                         config.model.hidden * size_of(config.type));
  return seconds / kernels::CostModel(machine).message_between_nodes(1, bytes);
}

/// A stage between two others sends and receives with each of them, two exchanges for each
/// microbatch, of which each takes as long as two messages.
TEST(ExchangedMessages, OfAMicrobatchTakeTwoExchanges) {
  for (const ScheduleKind& kind :
       {ScheduleKind::one_forward_one_backward, ScheduleKind::two_buffered}) {
    const double few = messages(pipeline(kind, 8)), many = messages(pipeline(kind, 24));
    EXPECT_NEAR((many - few) / 16, 2 * 2, 0.05) << kind.name;
  }
}

/// There, nothing goes both ways: a stage receives, computes and sends, one after the other.
TEST(ExchangedMessages, OfGPipeGoOneWay) {
  const double few = messages(pipeline(ScheduleKind::gpipe, 8));
  const double many = messages(pipeline(ScheduleKind::gpipe, 24));
  EXPECT_NEAR((many - few) / 16, 2 * 2, 0.05) << "two forward, two backward";
  // The first one fills, with a message between each pair of stages; the others follow.
  EXPECT_NEAR(few, 2 * (stages - 1) + 7 * 2 * 2, 0.1);
}

/// Receives without a flush: the next batch's first activation is there before the step, so that no
/// stage waits for its neighbour's step.
TEST(ExchangedMessages, GoOnOverABatchsEnd) {
  // Where both ways are as fast as one, two messages one after the other would take longer.
  const RunConfig config = pipeline(ScheduleKind::two_buffered, 8);
  EXPECT_NEAR((messages(config, 3, 1) - messages(config, 1, 1)) / 16, 2, 0.05);
}

}  // namespace
}  // namespace frugal::engine
