#include "engine/train/pass_memo.h"

#include <utility>

namespace frugal::engine {

bool PassMemo::Noted::repeatable() const { return complete_ && RankReplay(*rank_).fits(stretch_); }

void PassMemo::Noted::repeat(const std::vector<Ends>& ends, const ParameterList& parameters) const {
  make_fresh(parameters, fresh_);
  for (const Ends& pass : ends)  // its end is among the changes
    if (pass.input != nullptr) std::exchange(*pass.input, Tensor()).leave_counted();
  RankReplay(*rank_).repeat(stretch_);
  for (size_t i = 0; i < ends.size(); ++i) {
    if (outputs_.at(i).view.empty()) continue;
    auto [entry, view] = outputs_[i];
    entry.place.microbatch = ends[i].microbatch;
    *ends[i].output = {rank_->ledger, entry, view.type, view.shape};
  }
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

void PassMemo::note(const Key& key, const std::function<void()>& make,
                    const std::vector<Ends>& ends, const ParameterList& parameters) {
  Noted passes(rank_, RankReplay(rank_).note(make));
  passes.fresh_ = fresh_of(parameters);
  passes.complete_ = passes.stretch_.device.tape.complete();
  for (const Ends& pass : ends) {
    Noted::Output& output = passes.outputs_.emplace_back();
    if (pass.output == nullptr || pass.output->empty()) continue;
    const auto entry = pass.output->sole_entry();
    // What others share would be given back by them as well.
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

void make_fresh(const ParameterList& parameters, const std::vector<bool>& fresh) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i]->fresh = fresh.at(i);
}

}  // namespace frugal::engine
