#include <stdexcept>

#include "engine/cluster.h"
#include "engine/comm/virtual.h"

namespace frugal {
namespace {

class VirtualCluster final : public Cluster {
 public:
  VirtualCluster(const RunConfig& config, const Machine& machine)
      : device_(machine),
        communicator_(device_, 0, config.tensor_parallel),
        rank_(device_, communicator_, config) {}

  void run(const std::function<void(Rank&)>& body) override { body(rank_); }
  int local_ranks() const override { return 1; }
  Rank& rank(int index) override {
    if (index != 0) throw std::out_of_range("a virtual cluster has rank 0 only");
    return rank_;
  }

 private:
  VirtualDevice device_;
  VirtualCommunicator communicator_;
  Rank rank_;
};

}  // namespace

std::unique_ptr<Cluster> make_virtual_cluster(const RunConfig& config, const Machine& machine) {
  config.validate();
  return std::make_unique<VirtualCluster>(config, machine);
}

}  // namespace frugal
