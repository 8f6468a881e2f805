#include "engine/train/pass_memo.h"

namespace frugal {
namespace {

VirtualDevice& device_of(Rank& rank) { return static_cast<VirtualDevice&>(rank.device); }

/// While this lives, what a rank does is noted.
class Noting {
 public:
  Noting(Rank& rank, Tape& tape, DeviceWork& work, Ledger::Sums& memory, std::vector<double>& flops)
      : rank_(rank),
        work_(work),
        memory_(memory),
        work_before_(device_of(rank).exchange(DeviceWork())),
        before_(rank.ledger.exchange({})) {
    device_of(rank).start(tape);
    rank.counted = &flops;
  }
  ~Noting() {
    device_of(rank_).stop();
    work_ = device_of(rank_).exchange(work_before_);
    device_of(rank_).add(work_);
    rank_.counted = nullptr;
    memory_ = rank_.ledger.exchange(before_);
    rank_.ledger.add(memory_);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  Rank& rank_;
  DeviceWork& work_;
  Ledger::Sums& memory_;
  const DeviceWork work_before_;
  const Ledger::Sums before_;
};

}  // namespace

bool PassMemo::Pass::repeatable() const {
  return complete_ && device_of(*rank_).fits(memory_.peak_total);
}

Tensor PassMemo::Pass::repeat(Tensor input, const ParameterList& parameters) const {
  make_fresh(parameters, fresh_);
  input.leave_counted();  // its end is among the changes
  VirtualDevice& device = device_of(*rank_);
  device.play(tape_);
  device.add(work_);
  device.add_in_use(memory_.total);
  rank_->ledger.add(memory_);
  for (const double flops : flops_) rank_->count(flops);
  if (output_.empty()) return {};
  Ledger::Entry entry = output_entry_;
  entry.place.microbatch = rank_->ledger.place().microbatch;
  return {rank_->ledger, entry, output_.type, output_.shape};
}

bool PassMemo::possible(const Rank& rank) {
  const RunConfig& c = rank.config;
  return dynamic_cast<const VirtualDevice*>(&rank.device) != nullptr &&
         !rank.ledger.records_timeline() && !rank.on_logits &&
         // A tensor that goes to the host is waited for in a later pass, and a step begins with the
         // first of the backward passes that make it.
         !c.offload && !c.step_in_backward;
}

const PassMemo::Pass* PassMemo::find(const Key& key) const {
  const auto found = passes_.find(key);
  return found == passes_.end() ? nullptr : &found->second;
}

void PassMemo::note(const Key& key, const std::function<void()>& make, const Tensor& output,
                    const ParameterList& parameters) {
  Pass pass(rank_);
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
