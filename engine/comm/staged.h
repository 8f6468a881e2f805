#pragma once
#include <memory>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/local.h"
#include "engine/comm/topology.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {

/// Ranks of a stage that send the same: those of a tensor-parallel group do without sequence
/// parallelism.
enum class Replicated : uint8_t { no, over_tensor_group };

class Rendezvous;

/// Messages that each stage exchanges with its neighbours.
class Exchange;
using Exchanges = std::vector<Exchange>;
std::shared_ptr<Exchanges> exchanges_of(const std::vector<VirtualDevice*>& devices);

/// The stages of a virtual pipeline, or the ends of one: tasks (engine/comm/tasks.h) or threads
/// that each have a virtual device and stand for the t · w equal ranks of their stage. What they
/// say to each other takes the time that the cost model says, and begins when those whom it takes
/// are ready for it. Views have no memory; sizes and types count, and std::logic_error says where
/// they do not fit together.
///
/// Everything goes to one stream of each device: one group for each direction of messages, and one
/// for collectives.
///
/// A message occupies its sender's stream from the moment at which the sender has computed it, and
/// is there when that ends; whether the receiver waits for it by then makes no difference, but
/// where messages are exchanged (Messages), which also says whom a message holds up. A receive
/// holds the stream to which it was issued until the message is there, as NCCL's does; waiting for
/// it holds the compute stream too. Waiting, and issuing something else to the stream, block the
/// task until the message has been sent. A collective begins when the last stage is ready for it
/// and ends for all at once. Its end decides when later work of the stream begins, so starting one
/// blocks the task until all have started it.
///
/// Clocks are therefore functions of what the stages do, and not of when their tasks do it.
class StagedGroup final : public Group {
 public:
  /// The devices of all stages in their order, equal ones; they outlive the group. `group` is
  /// of stages, or of the first and the last alone. No single wait of a thread lasts
  /// longer than `deadline` seconds of the real clock, and a task's ends when all wait: then
  /// DeadlinePassed names the stages and what they wait for. `exchanges` are the stages' own, which
  /// groups of both directions share; needed where messages are exchanged.
  StagedGroup(const std::vector<VirtualDevice*>& devices, const Topology& topology,
              const GroupSpec& group, std::shared_ptr<Exchanges> exchanges,
              Replicated replicated = Replicated::no,
              double deadline = LocalGroup::default_deadline);
  ~StagedGroup() override;

  /// Clocks stay where they are.
  void reset() override;

 private:
  std::shared_ptr<Exchanges> exchanges_;
  std::vector<VirtualDevice*> devices_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace frugal::engine
