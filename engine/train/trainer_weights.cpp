#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <sstream>

#include "engine/train/trainer.h"
#include "kernels/support/error.h"

namespace frugal::engine {

void Trainer::load_weights(const WeightSource& weight) {
  std::mutex guard;  // so that one weight at a time is on the host
  cluster_.run([&](Rank& rank) {
    Member& member = of(rank);
    const bool divided = run_.shards(Shard::weights);
    for (Parameter* p : member.model->parameters()) {
      const std::lock_guard lock(guard);
      const HostTensor serial = weight(p->name);
      const Shape& s = p->serial_shape;
      if (!std::equal(serial.shape.begin(), serial.shape.end(), s.extent.begin(),
                      s.extent.begin() + s.dims))
        throw InputError(fmt::format("tensor weight/{} has shape [{}], the model needs [{}]",
                                     p->name, fmt::join(serial.shape, ", "),
                                     fmt::join(s.extent.begin(), s.extent.begin() + s.dims, ", ")));
      if (divided) p->weight = rank.allocate(p->weight.shape(), Kind::communication);
      scatter_from(serial, rank.device, p->view(), p->global_index(rank));
      if (divided) p->keep_part(rank, member.weights->block(member.weights->newest()));
    }
    make_optimizer(rank);
  });
}

void Trainer::load_weights(const HostTensors& tensors) {
  load_weights([&](const std::string& name) {
    const auto found = tensors.find("weight/" + name);
    if (found == tensors.end()) throw InputError(fmt::format("tensor weight/{} is missing", name));
    return found->second;
  });
}

/// In the order of the ranks that have them.
std::vector<Trainer::WeightName> Trainer::weight_names() const {
  std::string here;
  for (const Member& member : members_)
    for (const Parameter* p : member.model->parameters()) {
      if (p->is_copy) continue;
      here += fmt::format("{} {}", p->name, p->serial_shape.dims);
      for (int i = 0; i < p->serial_shape.dims; ++i) here += fmt::format(" {}", p->serial_shape[i]);
      here += '\n';
    }
  std::vector<WeightName> all;  // once each
  std::set<std::string> names;
  for (const std::string& of_process : cluster_.exchange(here)) {
    std::istringstream lines(of_process);
    for (WeightName weight; lines >> weight.name >> weight.shape.dims;) {
      for (int i = 0; i < weight.shape.dims; ++i)
        lines >> weight.shape.extent.at(static_cast<size_t>(i));
      if (names.insert(weight.name).second) all.push_back(weight);
    }
  }
  return all;
}

}  // namespace frugal::engine
