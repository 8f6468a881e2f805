#include "tests/emulator/meeting.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "engine/comm/local.h"
#include "tests/emulator/arena.h"

namespace emulator {
namespace {

/// Bytes of the file for what one rank brings at a time.
constexpr int64_t room = int64_t{1} << 30;

/// Number of a GPU among those of all machines, by their names.
uint64_t number_everywhere(int gpu) {
  std::array<char, 256> machine{};
  gethostname(machine.data(), machine.size() - 1);
  return std::hash<std::string>()(machine.data()) * most_gpus +
         static_cast<uint64_t>(number_on_machine(gpu)) + 1;
}

int64_t bytes_of(const Part& part, int64_t count) { return count * size_of(part.type); }

/// Places of each GPU that kernels have taken which have begun.
std::array<int, most_gpus> places_taken{};

}  // namespace

/// Kernel of what a rank has issued at a time: it begins when the GPU has places for its blocks.
class Member::Kernel {
 public:
  explicit Kernel(Member& of) : of_(of) { ++of_.under_way_; }
  bool begins() {
    int& taken = places_taken.at(static_cast<size_t>(of_.gpu_));
    if (!begun_ && taken + of_.blocks_ <= gpu().nccl_places) {
      taken += of_.blocks_;
      begun_ = true;
    }
    return begun_;
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    --of_.under_way_;
    if (begun_) places_taken.at(static_cast<size_t>(of_.gpu_)) -= of_.blocks_;
  }

 private:
  Member& of_;  // which the stream has, too
  bool begun_ = false, ended_ = false;
};

/// Contribution of one rank to what it does with some others. A number is that of the last one.
struct Member::Slot {
  std::atomic<bool> called;
  std::atomic<uint64_t> brought, taken;
  Joint joint;
  frugal::kernels::DType type;
  int64_t count;
  int root;

  bool same(const Slot& other) const {
    return joint == other.joint && type == other.type && count == other.count && root == other.root;
  }
};

/// Zeros at first.
struct Member::Shared {
  std::atomic<int> size;
  struct Rank {
    std::atomic<int> process;
    std::atomic<uint64_t> gpu;  // another number for each of every machine's, and not 0
    std::atomic<bool> finalized, left;
  };
  std::array<Rank, most_gpus> ranks;
  std::array<Slot, size_t{most_gpus} * (1 + 2 * most_gpus)> slots;
};

Member::Member(const std::string& file, int rank, int size, int gpu, int blocks)
    : name_(file), rank_(rank), size_(size), gpu_(gpu), blocks_(blocks) {
  file_ = open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0 || ftruncate(file_, sizeof(Shared)) != 0)
    fault_of_system("emulator: no file to share");
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) fault_of_system("emulator: no memory to share");
  shared_ = static_cast<Shared*>(memory);
}

Member::~Member() {
  munmap(shared_, sizeof(Shared));
  close(file_);
}

bool Member::join() {
  int nobody = 0;
  shared_->size.compare_exchange_strong(nobody, size_);
  auto& own = shared_->ranks.at(static_cast<size_t>(rank_));
  nobody = 0;
  if (shared_->size != size_ || !own.process.compare_exchange_strong(nobody, getpid()))
    return false;
  const uint64_t number = number_everywhere(gpu_);
  own.gpu = number;
  const auto alike = std::count_if(shared_->ranks.begin(), shared_->ranks.end(),
                                   [&](const auto& rank) { return rank.gpu == number; });
  if (complete()) unlink(name_.c_str());  // nobody else looks for it
  const char* const told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool allowed = alike == 1 || (told != nullptr && std::string_view(told) == "1");
  if (!allowed) own.left = true;  // nobody has to wait for it
  return allowed;
}

bool Member::complete() const {
  return std::all_of(shared_->ranks.begin(), shared_->ranks.begin() + size_,
                     [](const auto& rank) { return rank.gpu != 0; });
}

bool Member::lost() const {
  return std::any_of(shared_->ranks.begin(), shared_->ranks.end(), [](const auto& rank) {
    const int process = rank.process;
    return process != 0 && process != getpid() && !rank.left && kill(process, 0) != 0 &&
           errno == ESRCH;
  });
}

void Member::finalize() { shared_->ranks.at(static_cast<size_t>(rank_)).finalized = true; }

bool Member::finalized() const {
  return under_way_ == 0 && std::all_of(shared_->ranks.begin(), shared_->ranks.begin() + size_,
                                        [](const auto& rank) -> bool { return rank.finalized; });
}

void Member::leave() {
  if (!complete()) unlink(name_.c_str());
  shared_->ranks.at(static_cast<size_t>(rank_)).left = true;
}

bool Member::left() const {
  return std::all_of(shared_->ranks.begin(), shared_->ranks.end(),
                     [](const auto& rank) { return rank.process != getpid() || rank.left; });
}

Member::Slot& Member::slot(Between between, int place) const {
  const int of_pair = between == everybody ? 0 : 1 + 2 * between.first + place;
  const int row = between == everybody ? place : between.second;
  return shared_->slots.at(static_cast<size_t>(row * (1 + 2 * most_gpus) + of_pair));
}

std::vector<Member::Slot*> Member::slots(Between between) const {
  std::vector<Slot*> all;
  for (int place = 0; place < (between == everybody ? size_ : 2); ++place)
    all.push_back(&slot(between, place));
  return all;
}

void Member::call(const std::vector<Step>& steps) {
  for (const Step& step : steps) slot(step.between, step.place).called = true;
}

bool Member::connected(const std::vector<Step>& steps) const {
  return std::all_of(steps.begin(), steps.end(), [this](const Step& step) {
    return step.between == everybody ||
           (slot(step.between, 0).called && slot(step.between, 1).called);
  });
}

void Member::issue(cudaStream_t stream, const std::vector<Step>& steps) {
  const auto own = shared_from_this();  // a stream may still have it when the rank has left
  const auto kernel = std::make_shared<Kernel>(*this);
  hold(stream, [own, kernel] { return own->aborted_ || kernel->begins(); });
  std::vector<std::pair<Step, uint64_t>> all;
  for (const Step& step : steps) {
    const uint64_t number = ++issued_[{step.between, step.place}];
    push(
        stream, [own, step, number] { own->bring(step, number); }, false);
    all.emplace_back(step, number);
  }
  const auto over = [own, kernel, all = std::move(all)] {
    // What one of them waits for another may do: all are looked at.
    const bool done = std::count_if(all.begin(), all.end(), [&](const auto& each) {
                        return !own->over(each.first, each.second);
                      }) == 0;
    if (done) kernel->end();
    return done;
  };
  hold(stream, over, false);
}

void Member::bring(const Step& step, uint64_t number) const {
  if (aborted_) return;
  const Part& part = step.part;
  Slot& own = slot(step.between, step.place);
  own.joint = part.joint;
  own.type = part.type;
  own.count = part.count;
  own.root = part.root;
  const bool needed = part.joint == Joint::broadcast ? part.root == rank_ : part.from != nullptr;
  if (gpu().computes && needed) {
    const int64_t bytes =
        bytes_of(part, part.joint == Joint::reduce_scatter ? part.count * size_ : part.count);
    if (bytes > room || pwrite(file_, part.from, static_cast<size_t>(bytes),
                               room * (1 + (&own - shared_->slots.data()))) != bytes)
      fault_of_system("emulator: what a rank brings could not be written");
  }
  own.brought = number;
}

bool Member::over(const Step& step, uint64_t number) const {
  if (aborted_) return true;
  const std::vector<Slot*> all = slots(step.between);
  Slot& own = slot(step.between, step.place);
  if (own.taken < number) {
    if (std::any_of(all.begin(), all.end(), [&](const Slot* s) { return s->brought < number; }))
      return false;
    check_same(all);
    if (gpu().computes) take(step);
    own.taken = number;
  }
  return std::all_of(all.begin(), all.end(), [&](const Slot* s) { return s->taken >= number; });
}

/// Ends the program where ranks differ: the library would hang, or write what nobody asked for.
void Member::check_same(const std::vector<Slot*>& all) {
  constexpr std::array names = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                "message"};
  if (std::all_of(all.begin(), all.end(), [&](const Slot* s) { return s->same(*all.front()); }))
    return;
  for (const Slot* s : all)
    std::fprintf(stderr, "emulator: %s of %lld elements of type %s, root %d\n",
                 names.at(static_cast<size_t>(s->joint)), static_cast<long long>(s->count),
                 name_of(s->type).data(), s->root);
  std::fprintf(stderr, "emulator: that is not the same for all\n");
  std::abort();
}

/// Elements of what the rank at a place has brought.
void Member::read(const Step& step, int place, int64_t first, int64_t count, void* to) const {
  const Slot& of = slot(step.between, place);
  const int64_t bytes = bytes_of(step.part, count);
  const int64_t at = room * (1 + (&of - shared_->slots.data())) + bytes_of(step.part, first);
  if (pread(file_, to, static_cast<size_t>(bytes), at) != bytes)
    fault_of_system("emulator: what a rank has brought could not be read");
}

void Member::take(const Step& step) const {
  const Part& part = step.part;
  const arena::Open open(gpu_);
  if (part.joint == Joint::message) {
    if (part.to != nullptr) read(step, 0, 0, part.count, part.to);
  } else if (part.joint == Joint::broadcast) {
    read(step, part.root, 0, part.count, part.to);
  } else if (part.joint == Joint::all_gather) {
    for (int r = 0; r < size_; ++r)
      read(step, r, 0, part.count, static_cast<char*>(part.to) + r * bytes_of(part, part.count));
  } else {
    const int64_t first = part.joint == Joint::reduce_scatter ? part.count * rank_ : 0;
    std::vector<std::unique_ptr<char[]>> brought;
    std::vector<const void*> from;
    for (int r = 0; r < size_; ++r) {
      const auto bytes = static_cast<size_t>(bytes_of(part, part.count));
      brought.push_back(std::make_unique<char[]>(bytes));
      read(step, r, first, part.count, brought.back().get());
      from.push_back(brought.back().get());
    }
    frugal::engine::reduce_into(part.type, from.data(), size_, 0, part.count, &part.to, 1, 0);
  }
}

}  // namespace emulator
