#include "engine/train/pass_memo.h"

#include <utility>

#include "engine/model/part.h"

namespace frugal::engine {

/// Notes what a rank does while this lives, also where it ends by an error.
class PassMemo::Noting {
 public:
  Noting(Rank& rank, Noted& passes)
      : rank_(rank),
        passes_(passes),
        memory_(rank.ledger.exchange({})),
        flops_(std::exchange(rank.flops, FlopCounter::remembering())) {
    rank.device.replay()->start(passes.device_);
  }
  ~Noting() {
    rank_.device.replay()->stop();
    passes_.memory_ = rank_.ledger.exchange(memory_);
    rank_.ledger.add(passes_.memory_);
    passes_.flops_ = std::exchange(rank_.flops, flops_);
    rank_.flops.add(passes_.flops_);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  Rank& rank_;
  Noted& passes_;
  const Ledger::Sums memory_;
  const FlopCounter flops_;
};

bool PassMemo::Noted::repeatable() const {
  return complete_ && rank_->device.replay()->fits(memory_.peak_total);
}

void PassMemo::Noted::repeat(const std::vector<Ends>& ends, const ParameterList& parameters) const {
  restore_fresh(parameters, fresh_);
  for (const Ends& pass : ends)  // its end is among the changes
    if (pass.input != nullptr) std::exchange(*pass.input, Tensor()).leave_counted();
  rank_->device.replay()->repeat(device_);
  rank_->ledger.add(memory_);
  rank_->flops.add(flops_);
  for (size_t i = 0; i < ends.size(); ++i) {
    if (outputs_.at(i).view.empty()) continue;
    auto [entry, view] = outputs_[i];
    entry.place.microbatch = ends[i].microbatch;
    *ends[i].output = {rank_->ledger, entry, view.type, view.shape};
  }
}

bool PassMemo::possible(const Rank& rank) {
  const RunConfig& c = rank.config;
  return rank.device.replay() != nullptr &&
         // Each change of memory is asked for.
         !rank.ledger.records_timeline() &&
         // A tensor that goes to the host is waited for in a later pass, a step begins with the
         // first of the backward passes that make it, and weights may stay from pass to pass.
         !c.offload && !c.gradients_come_and_go() && !c.program.weights.outer_stay &&
         !c.program.weights.layers_stay && !c.program.weights.last_layer_stays &&
         // Divided gradients of an output table may be there from another pass: a head in parts
         // makes them in its forward pass, and of a tied one the embedding's chunk adds the rest.
         !(c.reduces_in_backward() &&
           (c.head_mini_sequences() > 1 || c.head_tiles > 1 ||
            (c.model.tied && ModelPart::of(c, 0, 0).beside_other_end))) &&
         // Memory that a stage of a V keeps and its next chunk reads is given back by neither
         // alone.
         !(c.keeps_outputs() && c.schedule.placement != Placement::around);
}

const PassMemo::Noted* PassMemo::find(const Key& key) const {
  const auto found = passes_.find(key);
  return found == passes_.end() ? nullptr : &found->second;
}

void PassMemo::note(const Key& key, const std::function<void()>& make,
                    const std::vector<Ends>& ends, const ParameterList& parameters) {
  Noted passes(rank_);
  {
    const Noting noting(rank_, passes);
    make();
  }
  passes.fresh_ = fresh_of(parameters);
  passes.complete_ = passes.device_.tape.complete();
  for (const Ends& pass : ends) {
    Noted::Output& output = passes.outputs_.emplace_back();
    if (pass.output == nullptr || pass.output->empty()) continue;
    const auto entry = pass.output->sole_entry();
    // Shared memory would be given back twice.
    passes.complete_ = passes.complete_ && entry;
    if (entry) output.entry = *entry;
    output.view = pass.output->view();
  }
  passes_.emplace(key, std::move(passes));
}

std::vector<bool> fresh_of(const ParameterList& parameters) {
  std::vector<bool> fresh;
  for (const Parameter* p : parameters) fresh.push_back(p->fresh);
  return fresh;
}

void restore_fresh(const ParameterList& parameters, const std::vector<bool>& fresh) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i]->fresh = fresh.at(i);
}

Uncounted::Uncounted(Rank& rank)
    : rank_(rank),
      // All memory is free: a pass that fitted beside others fits alone.
      device_(rank.device.replay()->exchange({})),
      ledger_(rank.ledger.exchange({})),
      flops_(rank.flops) {}

Uncounted::~Uncounted() {
  rank_.device.replay()->exchange(device_);
  rank_.ledger.exchange(ledger_);
  rank_.flops = flops_;
}

}  // namespace frugal::engine
