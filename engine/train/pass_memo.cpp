#include "engine/train/pass_memo.h"

#include <utility>

namespace frugal {
namespace {

VirtualDevice& device_of(Rank& rank) { return static_cast<VirtualDevice&>(rank.device); }

/// While this lives, what a rank does is noted.
class Noting {
 public:
  Noting(Rank& rank, Tape& tape, DeviceWork& work, Ledger::Sums& memory, FlopCounter& flops)
      : rank_(rank),
        work_(work),
        memory_(memory),
        flops_(flops),
        work_before_(device_of(rank).exchange(DeviceWork())),
        before_(rank.ledger.exchange({})),
        flops_before_(std::exchange(rank.flops, FlopCounter::remembering())) {
    device_of(rank).start(tape);
  }
  ~Noting() {
    device_of(rank_).stop();
    work_ = device_of(rank_).exchange(work_before_);
    device_of(rank_).add(work_);
    flops_ = std::exchange(rank_.flops, flops_before_);
    rank_.flops.add(flops_);
    memory_ = rank_.ledger.exchange(before_);
    rank_.ledger.add(memory_);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  Rank& rank_;
  DeviceWork& work_;
  Ledger::Sums& memory_;
  FlopCounter& flops_;
  const DeviceWork work_before_;
  const Ledger::Sums before_;
  const FlopCounter flops_before_;
};

}  // namespace

bool PassMemo::Noted::repeatable() const {
  return complete_ && device_of(*rank_).fits(memory_.peak_total);
}

Tensor PassMemo::Noted::repeat(Tensor input, const ParameterList& parameters,
                               int microbatch) const {
  make_fresh(parameters, fresh_);
  input.leave_counted();  // its end is among the changes
  VirtualDevice& device = device_of(*rank_);
  device.play(tape_);
  device.add(work_);
  device.add_in_use(memory_.total);
  rank_->ledger.add(memory_);
  rank_->flops.add(flops_);
  if (output_.empty()) return {};
  Ledger::Entry entry = output_entry_;
  entry.place.microbatch = microbatch;
  return {rank_->ledger, entry, output_.type, output_.shape};
}

bool PassMemo::possible(const Rank& rank) {
  const RunConfig& c = rank.config;
  return dynamic_cast<const VirtualDevice*>(&rank.device) != nullptr &&
         !rank.ledger.records_timeline() &&
         // A tensor that goes to the host is waited for in a later pass, and a step begins with the
         // first of the backward passes that make it.
         !c.offload && !c.step_in_backward;
}

const PassMemo::Noted* PassMemo::find(const Key& key) const {
  const auto found = passes_.find(key);
  return found == passes_.end() ? nullptr : &found->second;
}

void PassMemo::note(const Key& key, const std::function<void()>& make, const Tensor& output,
                    const ParameterList& parameters) {
  Noted pass(rank_);
  {
    const Noting noting(rank_, pass.tape_, pass.work_, pass.memory_, pass.flops_);
    make();
  }
  pass.fresh_ = fresh_of(parameters);
  pass.complete_ = pass.tape_.complete();
  if (!output.empty()) {
    const auto entry = output.sole_entry();
    // What others share would be given back by them as well.
    pass.complete_ = pass.complete_ && entry;
    if (entry) pass.output_entry_ = *entry;
    pass.output_ = output.view();
  }
  passes_.emplace(key, std::move(pass));
}

std::vector<bool> fresh_of(const ParameterList& parameters) {
  std::vector<bool> fresh;
  for (const Parameter* p : parameters) fresh.push_back(p->fresh);
  return fresh;
}

void make_fresh(const ParameterList& parameters, const std::vector<bool>& fresh) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i]->fresh = fresh.at(i);
}

Uncounted::Uncounted(Rank& rank)
    : rank_(rank),
      // With all memory free: what fitted beside others fits alone.
      device_(device_of(rank).exchange(VirtualDevice::State())),
      work_(rank.device.work()),
      ledger_(rank.ledger.exchange({})),
      flops_(rank.flops) {}

Uncounted::~Uncounted() {
  device_of(rank_).exchange(device_);
  device_of(rank_).exchange(work_);
  rank_.ledger.exchange(ledger_);
  rank_.flops = flops_;
}

}  // namespace frugal
