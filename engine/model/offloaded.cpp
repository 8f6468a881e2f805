#include "engine/model/offloaded.h"

#include <algorithm>

namespace frugal::engine {
namespace {

/// The device's memory of what was sent last may go when the compute stream knows that it has
/// arrived on the host: memory is used again in that stream's order.
void let_go(Rank& rank) {
  if (rank.offload.sources.empty()) return;
  rank.device.wait(Stream::compute, rank.offload.end);
  rank.offload.sources.clear();
}

/// Stream whose copies from here on wait until all that is issued to the compute stream has ended:
/// their source has been computed, and nobody uses the memory that they write to.
Stream after_compute(Device& device, const StreamSpec& spec) {
  const Stream stream = device.stream(spec);
  device.wait(stream, device.record(Stream::compute));
  return stream;
}

}  // namespace

void Offloaded::store(const Pass& pass, const KeptTensors& kept) {
  let_go(pass.rank);
  const RunConfig& c = pass.rank.config;
  if (where_ == Where::nowhere) {
    for (const auto& [module, tensor] : kept)
      if (module == LayerModule::input || c.offloads(module)) tensor->release();
    return;
  }
  if (where_ == Where::host && c.offload) send(pass, kept);
  for (const auto& [module, tensor] : kept)
    if (module == LayerModule::input) keep(pass, *tensor);
}

std::vector<Offloaded::Block> Offloaded::blocks_of(const RunConfig& config,
                                                   const KeptTensors& kept) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Tensor& tensor = *kept[i].tensor;
    if (tensor.empty() || !config.offloads(kept[i].module)) continue;
    const auto of_same_memory = [&](const Block& block) {
      return tensor.shares_memory_with(*kept[block.parts.front().index].tensor);
    };
    auto block = std::find_if(blocks.begin(), blocks.end(), of_same_memory);
    if (block == blocks.end()) block = blocks.emplace(block);
    block->parts.push_back({i, tensor.first_byte(), tensor.view()});
  }
  return blocks;
}

void Offloaded::send(const Pass& pass, const KeptTensors& kept) {
  Rank& rank = pass.rank;
  blocks_ = blocks_of(rank.config, kept);
  if (blocks_.empty()) return;
  for (Block& block : blocks_) {
    const auto& [module, tensor] = kept[block.parts.front().index];
    const Tensor source = tensor->memory();
    // Who made a layer's input did not keep it.
    block.place = module == LayerModule::input ? pass.place : source.place();
    block.on_host = source.as_much_of(rank.host, Kind::activation, block.place);
    rank.offload.sources.push_back(source);
    for (const Part& part : block.parts) kept[part.index].tensor->release();
  }
  const Stream stream = after_compute(rank.device, streams::to_host);
  for (size_t i = 0; i < blocks_.size(); ++i)
    rank.device.execute_on(stream, Transfer{rank.offload.sources[i], blocks_[i].on_host});
  left_ = rank.offload.end = rank.device.record(stream);
}

void Offloaded::fetch(const Pass& pass) {
  if (blocks_.empty() || fetched_) return;
  Device& device = pass.rank.device;
  for (Block& block : blocks_)
    block.here = block.on_host.as_much_of(pass.rank.ledger, Kind::activation, block.place);
  const Stream stream = after_compute(device, streams::from_host);
  device.wait(stream, left_);
  for (const Block& block : blocks_) device.execute_on(stream, Transfer{block.on_host, block.here});
  arrived_ = device.record(stream);
  fetched_ = true;
}

void Offloaded::restore(const Pass& pass, const KeptTensors& kept) {
  fetch(pass);
  if (!blocks_.empty()) pass.rank.device.wait(Stream::compute, arrived_);
  let_go(pass.rank);
  for (const Block& block : blocks_)
    for (const auto& [index, first_byte, view] : block.parts)
      *kept[index].tensor = block.here.at(first_byte, view);
  blocks_.clear();
}

}  // namespace frugal::engine
