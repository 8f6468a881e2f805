#include "engine/train/pass_memo.h"

namespace frugal::engine {

bool PassMemo::Noted::repeatable() const { return complete_ && RankReplay(*rank_).fits(stretch_); }

Tensor PassMemo::Noted::repeat(Tensor input, const ParameterList& parameters,
                               int microbatch) const {
  make_fresh(parameters, fresh_);
  input.leave_counted();  // its end is among the changes
  RankReplay(*rank_).repeat(stretch_);
  if (output_.empty()) return {};
  Ledger::Entry entry = output_entry_;
  entry.place.microbatch = microbatch;
  return {rank_->ledger, entry, output_.type, output_.shape};
}

bool PassMemo::possible(const Rank& rank) {
  const RunConfig& c = rank.config;
  return RankReplay::possible(rank) &&
         // A tensor that goes to the host is waited for in a later pass, a step begins with the
         // first of the backward passes that make it, and weights may stay from pass to pass.
         !c.offload && !c.gradients_come_and_go() && !c.program.keeps.outer_weights_stay &&
         !c.program.keeps.layer_weights_stay;
}

const PassMemo::Noted* PassMemo::find(const Key& key) const {
  const auto found = passes_.find(key);
  return found == passes_.end() ? nullptr : &found->second;
}

void PassMemo::note(const Key& key, const std::function<void()>& make, const Tensor& output,
                    const ParameterList& parameters) {
  Noted pass(rank_, RankReplay(rank_).note(make));
  pass.fresh_ = fresh_of(parameters);
  pass.complete_ = pass.stretch_.device.tape.complete();
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

}  // namespace frugal::engine
