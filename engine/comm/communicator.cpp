#include "engine/comm/communicator.h"

#include <fmt/format.h>

#include <stdexcept>

namespace frugal::engine {
namespace {

class Both final : public Pending::Work {
 public:
  Both(Pending first, Pending second) : first_(std::move(first)), second_(std::move(second)) {}
  void wait() override {
    first_.wait();
    second_.wait();
  }

 private:
  Pending first_, second_;
};

}  // namespace

/// Suits communicators whose send does not last until it is received.
Pending Communicator::shift(const View& from, const View& to) {
  contract::shifted(from, to);
  Pending sent = send(from, (rank() + 1) % size());
  return Pending(
      std::make_unique<Both>(std::move(sent), receive(to, (rank() + size() - 1) % size())));
}

}  // namespace frugal::engine

namespace frugal::engine::contract {
namespace {

void require(bool kept, const char* collective, const std::string& rule) {
  if (!kept) throw std::invalid_argument(fmt::format("{}: {}", collective, rule));
}

std::string text(const View& view) { return fmt::format("{} {}", view.size(), name_of(view.type)); }

}  // namespace

void moved(const char* collective, const View& data) {
  require(data.contiguous(), collective, "views must be contiguous");
}

void summed(const char* collective, const View& data) {
  moved(collective, data);
  const bool number =
      data.type == DType::f32 || data.type == DType::bf16 || data.type == DType::f64;
  require(number, collective, fmt::format("sums f32, bf16 or f64, not {}", name_of(data.type)));
}

void gathered(const char* collective, const View& shard, const View& all, int ranks) {
  moved(collective, shard);
  moved(collective, all);
  require(all.type == shard.type && all.size() == shard.size() * ranks, collective,
          fmt::format("{} is not {} shards of {}", text(all), ranks, text(shard)));
}

void exchanged(const View& from, const View& to, int ranks) {
  const char* collective = "all-to-all";
  moved(collective, from);
  moved(collective, to);
  require(from.type == to.type && from.size() == to.size(), collective,
          fmt::format("{} cannot become {}", text(from), text(to)));
  require(from.size() % ranks == 0, collective,
          fmt::format("{} cannot be divided into {} equal parts", text(from), ranks));
}

void shifted(const View& from, const View& to) {
  const char* collective = "shift";
  moved(collective, from);
  moved(collective, to);
  require(from.type == to.type && from.size() == to.size(), collective,
          fmt::format("{} cannot become {}", text(from), text(to)));
}

void peer(const char* collective, int peer, int ranks) {
  if (peer < 0 || peer >= ranks)  // the text costs more than a message of a virtual device
    require(false, collective, fmt::format("there is no rank {} in a group of {}", peer, ranks));
}

}  // namespace frugal::engine::contract
