#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>

#include "tests/engine/comm/staged.h"

namespace frugal::engine {
namespace {

/// Handles that the devices of a Pipeline give, in the order in which it asks for them.
constexpr Stream activations{2}, gradients{3}, communication{4};

/// What a stage of a random program does.
struct Step {
  enum Kind : uint8_t { compute, send, receive, reduce, reduce_ends } kind;
  int stage = 0, peer = 0;
  Stream stream = Stream::compute;
  double seconds = 0;
  View data;
};

struct RandomRun {
  Machine machine = find_machine("a100-selene");
  DeviceRules rules;
  ParallelSizes sizes;
  std::vector<Step> steps;  ///< in an order in which one thread could do them all
};

RandomRun random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<uint64_t>(below));
  };
  RandomRun program;
  program.sizes = {.tensor = 1 + draw(4), .data = 1 + draw(3), .stages = 2 + draw(4)};
  program.machine.devices_per_port = 1 + draw(8);
  program.rules.messages.kind = static_cast<Messages>(draw(2));
  program.machine.launch_overhead = 1e-6 * draw(300);  // so that the host is what is late, at times
  const int stages = program.sizes.stages;
  std::vector<Step> on_their_way;
  const auto receive = [&](size_t i) {  // the first of those between the same stages
    Step message = on_their_way[i];
    for (auto it = on_their_way.begin();; ++it) {
      if (it->stage != message.stage || it->peer != message.peer || it->stream != message.stream)
        continue;
      message = *it;
      on_their_way.erase(it);
      break;
    }
    std::swap(message.stage, message.peer);
    message.kind = Step::receive;
    program.steps.push_back(message);
  };
  for (int i = 0; i < 300; ++i) {
    const int stage = draw(stages);
    const View data{nullptr, DType::bf16, {1 + draw(1 << 20)}};
    const int what = draw(20);
    if (what < 8) {
      program.steps.push_back({Step::compute, stage, 0, Stream::compute, 1e-6 * draw(300), {}});
    } else if (what < 13) {
      const Stream stream = draw(2) == 0 ? activations : gradients;
      const int peer = (stage + 1 + draw(stages - 1)) % stages;
      on_their_way.push_back({Step::send, stage, peer, stream, 0, data});
      program.steps.push_back(on_their_way.back());
    } else if (what < 18) {
      if (!on_their_way.empty())
        receive(static_cast<size_t>(draw(static_cast<int>(on_their_way.size()))));
    } else {
      const bool ends = what == 19;
      for (int s = 0; s < stages; ++s)
        if (!ends || s == 0 || s == stages - 1)
          program.steps.push_back(
              {ends ? Step::reduce_ends : Step::reduce, s, 0, communication, 0, data});
    }
  }
  while (!on_their_way.empty()) receive(0);
  return program;
}

using Clocks = std::vector<std::array<double, most_streams>>;

/// What the clocks must be: the program run by one thread, on plain numbers.
class Oracle {
 public:
  explicit Oracle(const RandomRun& program)
      : program_(program),
        topology_(program.sizes),
        costs_(program.machine),
        kind_(program.rules.messages.kind),
        clocks_(static_cast<size_t>(program.sizes.stages)),
        host_(clocks_.size()) {
    for (const Step& step : program.steps) run(step);
    for (int stage = 0; stage < program.sizes.stages; ++stage)  // which waits for what it sent
      clock(stage, Stream::compute) = std::max(
          {clock(stage, Stream::compute), clock(stage, activations), clock(stage, gradients)});
  }
  const Clocks& clocks() const { return clocks_; }

 private:
  double& clock(int stage, Stream stream) {
    return clocks_[static_cast<size_t>(stage)][stream.index];
  }
  void hold_up(int stage, double until) {
    double& compute = clock(stage, Stream::compute);
    double& host = host_[static_cast<size_t>(stage)];
    compute = std::max(compute, until);
    host = std::max(host, until);
  }
  /// When something can begin that needs what was computed so far.
  double issue(int stage, Stream stream) {
    clock(stage, stream) = std::max(clock(stage, stream), held_[{stage, stream}]);
    double& host = host_[static_cast<size_t>(stage)];
    host += program_.machine.launch_overhead;
    return std::max({clock(stage, stream), clock(stage, Stream::compute), host});
  }
  void run(const Step& step) {
    const auto bytes = static_cast<double>(step.data.bytes());
    const auto per_node = static_cast<int>(program_.machine.devices_per_node);
    switch (step.kind) {
      case Step::compute:
        clock(step.stage, Stream::compute) = issue(step.stage, Stream::compute) + step.seconds;
        break;
      case Step::send: {
        const int senders = topology_.senders(step.stage, step.peer, per_node);
        const double begin = issue(step.stage, step.stream);
        const double seconds = senders == 0 ? costs_.message(true, bytes)
                                            : costs_.message_between_nodes(senders, bytes);
        clock(step.stage, step.stream) = begin + seconds;
        if (kind_ != Messages::beside) hold_up(step.stage, begin + seconds);
        messages_[{step.stage, step.peer, step.stream}].push_back({begin, seconds});
        break;
      }
      case Step::receive: {
        issue(step.stage, step.stream);
        auto& messages = messages_[{step.peer, step.stage, step.stream}];
        double& compute = clock(step.stage, Stream::compute);
        const auto [begin, seconds] = messages.front();
        messages.pop_front();
        held_[{step.stage, step.stream}] = begin + seconds;
        if (kind_ == Messages::beside)
          compute = std::max(compute, begin + seconds);
        else
          hold_up(step.stage, begin + seconds);
        break;
      }
      case Step::reduce:
      case Step::reduce_ends:
        meet(step, step.kind == Step::reduce ? group::stages : group::ends, bytes, per_node);
    }
  }
  /// The last of those who meet knows when it begins.
  void meet(const Step& step, const GroupSpec& group, double bytes, int per_node) {
    ready_.emplace_back(step.stage, issue(step.stage, communication));
    if (std::ssize(ready_) < topology_.size(group)) return;
    double begin = 0;
    for (const auto& [stage, time] : ready_) begin = std::max(begin, time);
    const CostModel::Group members = topology_.on_nodes(group, 0, per_node);
    for (const auto& [stage, time] : ready_)
      clock(stage, Stream::compute) = clock(stage, communication) =
          begin + costs_.all_reduce(members, bytes);
    ready_.clear();
  }

  const RandomRun& program_;
  const Topology topology_;
  const CostModel costs_;
  const Messages kind_;
  Clocks clocks_;
  std::vector<double> host_;
  std::map<std::tuple<int, int, Stream>, std::deque<std::pair<double, double>>> messages_;
  std::vector<std::pair<int, double>> ready_;
  std::map<std::pair<int, Stream>, double> held_;  // until when a receive holds it
};

void run_stage(const RandomRun& program, Pipeline& pipeline, int stage, std::mt19937& random) {
  VirtualDevice& device = *pipeline.devices[static_cast<size_t>(stage)];
  const int end = stage == 0 ? 0 : 1;
  std::vector<Pending> sent;
  for (const Step& step : program.steps) {
    if (step.stage != stage) continue;
    for (auto i = random() % 4; i > 0; --i) std::this_thread::yield();
    StagedGroup& messages = step.stream == gradients ? *pipeline.backward : *pipeline.forward;
    switch (step.kind) {
      case Step::compute:
        device.occupy(Stream::compute, step.seconds, "compute");
        break;
      case Step::send:
        sent.push_back(messages.communicator(stage).send(step.data, step.peer));
        break;
      case Step::receive:
        messages.communicator(stage).receive(step.data, step.peer).wait();
        break;
      case Step::reduce:
        pipeline.all->communicator(stage).all_reduce(step.data).wait();
        break;
      case Step::reduce_ends:
        pipeline.ends->communicator(end).all_reduce(step.data).wait();
        break;
    }
  }
}

TEST(StagedGroupRandom, ClocksDoNotDependOnThreads) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomRun program = random_program(seed);
    const Clocks expected = Oracle(program).clocks();
    for (unsigned interleaving = 0; interleaving < 5; ++interleaving) {
      Pipeline pipeline(program.machine, program.sizes, 60, Replicated::no, program.rules);
      on_every_rank(*pipeline.all, [&](Communicator& c) {
        std::mt19937 random(100 * interleaving + static_cast<unsigned>(c.rank()));
        run_stage(program, pipeline, c.rank(), random);
      });
      Clocks clocks;
      for (const auto& device : pipeline.devices) {
        clocks.emplace_back();
        for (size_t i = 0; i < clocks.back().size(); ++i)
          clocks.back()[i] = device->record(Stream{static_cast<uint8_t>(i)}).time;
      }
      ASSERT_EQ(clocks, expected) << "program " << seed << ", interleaving " << interleaving;
    }
  }
}

}  // namespace
}  // namespace frugal::engine
