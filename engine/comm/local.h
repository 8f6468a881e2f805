#pragma once
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/rendezvous.h"
#include "engine/namespace.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Ranks that are threads of one process. Starting a collective publishes the rank's views; waiting
/// for it waits for the others, does this rank's part directly on everybody's memory (or finds it
/// done, Parts), and waits until nobody needs this rank's memory any more. Collectives of several
/// ranks that do not belong together throw std::logic_error that names both.
class LocalGroup final : public Group {
 public:
  static constexpr double default_deadline = 600;

  /// No single wait lasts longer than `deadline` seconds. `names` are what messages call the ranks:
  /// "stage 3"; without them it is "rank 3".
  explicit LocalGroup(int size, double deadline = default_deadline,
                      std::vector<std::string> names = {}, Parts parts = Parts::by_each);

  void reset() override { rendezvous_.reset(); }
  /// Throws PeerLost after an abort or a deadline that passed; for those who wait elsewhere.
  void check() { rendezvous_.check(); }

 private:
  Rendezvous rendezvous_;
};

/// Σ over `sources` of their elements [begin, begin + count), written to each of `targets` from its
/// element target_begin on. All are of `type`; sums are in its accumulation type and in the order
/// of the sources, and rounded once. A target may be a source where both begin at the same element.
void reduce_into(DType type, const void* const* sources, int source_count, int64_t begin,
                 int64_t count, void* const* targets, int target_count, int64_t target_begin);

}  // namespace frugal::engine
