#pragma once
#include <map>

#include "engine/optimizer/flat_parameters.h"

namespace frugal::engine {

/// Copies every weight in float32 as a program does with a step of two versions
/// (Software::version_copies): the newer one to where the older one was, and both to each other's
/// place by way of a third. Nothing otherwise.
void copy_versions(Rank& rank, const ParameterList& parameters);
/// Copies all these weights out of float32, as such a program does where a pass needs another
/// version than the one before.
void copy_out(Rank& rank, const View& weights);

/// Weights of one rank in as many versions as its schedule needs at a time: one where batches are
/// flushed, two with 2BW, up to the depth of the pipeline with weight stashing. Version v is what v
/// steps have made of the initial weights. A version is a block of memory of its own; blocks that
/// are not needed are used again and not given back.
class WeightVersions {
 public:
  /// `block` holds the weights of all parameters (ParameterStore) and is version 0.
  WeightVersions(ParameterList parameters, Tensor block);

  /// Makes the parameters' weights those of this version, which must be alive. A program may copy
  /// them (Software::version_copies).
  void use(Rank& rank, int version);

  /// Makes a new newest version, for the optimizer to write: in place of the one before, or
  /// elsewhere where that one is still needed. Throws OutOfMemory.
  WeightBlocks advance(Rank& rank, bool previous_is_needed);
  /// Calls copy_versions() for a step, where there are several versions.
  void copy_all(Rank& rank) const;
  /// Gives up a version that is not needed any more. The newest one stays.
  void drop(int version);

  /// Resumes a training: its newest version is this one, and the one before it is there, too, if it
  /// is needed. The caller writes the values of both. Throws OutOfMemory.
  void resume(Rank& rank, int version, bool previous_is_needed);

  /// Gives the newest version another block; returns the one it had.
  Tensor exchange(Tensor block);

  int newest() const { return blocks_.rbegin()->first; }
  const Tensor& block(int version) const { return blocks_.at(version); }
  bool alive(int version) const { return blocks_.contains(version); }
  size_t alive() const { return blocks_.size(); }
  /// Blocks in memory, in use or not.
  size_t blocks() const { return blocks_.size() + free_.size(); }

 private:
  Tensor new_block(Rank& rank, const Tensor& like) const;
  void bind(int version);

  ParameterList parameters_;
  std::map<int, Tensor> blocks_;
  std::vector<Tensor> free_;
  int used_ = 0;
};

}  // namespace frugal::engine
