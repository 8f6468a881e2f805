#include "engine/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <tuple>

#include "engine/config.h"
#include "engine/program/behaviour.h"
#include "kernels/support/error.h"

namespace frugal::engine {

const std::map<std::string_view, ModelEvent>& kernel_events() {
  static const std::map<std::string_view, ModelEvent> events = {
      {"layer-ends", ModelEvent::layer_ends},
      {"layer-gradient-read", ModelEvent::layer_gradient_read},
      {"attention-gradient-begins", ModelEvent::attention_gradient_begins},
      {"logits-made", ModelEvent::logits_made},
      {"loss-gradient-begins", ModelEvent::loss_gradient_begins},
      {"unit-gathered", ModelEvent::unit_gathered},
      {"unit-gradients-complete", ModelEvent::unit_gradients_complete},
      {"moment-read", ModelEvent::moment_read}};
  return events;
}

std::string kernel_event_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, event] : kernel_events()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

namespace {

/// Kernels of files that were read, with their behaviours, which stay where they are.
struct KnownKernel {
  ProgramKernel kernel;
  Behaviour behaviour;
};
std::mutex kernels_guard;
std::deque<KnownKernel>& known_kernels() {
  static std::deque<KnownKernel> all;
  return all;
}

}  // namespace

std::string term_of(const Behaviour& behaviour) {
  const std::scoped_lock lock(kernels_guard);
  for (const KnownKernel& one : known_kernels()) {
    if (&one.behaviour != &behaviour) continue;
    const auto is_at = [&](const auto& event) { return event.second == one.kernel.at; };
    return fmt::format("{}*{}*{}", std::ranges::find_if(kernel_events(), is_at)->first,
                       one.kernel.bytes, one.kernel.launches);
  }
  return std::string(behaviour.name);
}

const Behaviour& behaviour_of(const ProgramKernel& kernel) {
  const std::scoped_lock lock(kernels_guard);
  std::deque<KnownKernel>& all = known_kernels();
  const auto same = [&](const KnownKernel& one) {
    const ProgramKernel& k = one.kernel;
    return std::tie(k.name, k.does, k.at, k.bytes, k.launches) ==
           std::tie(kernel.name, kernel.does, kernel.at, kernel.bytes, kernel.launches);
  };
  if (const auto found = std::ranges::find_if(all, same); found != all.end())
    return found->behaviour;
  KnownKernel& known = all.emplace_back(KnownKernel{kernel, {}});
  known.behaviour = {.name = known.kernel.name,
                     .changes = Changes::time,
                     .does = known.kernel.does,
                     .effects = {effects::kernel(kernel.at, kernel.bytes, kernel.launches)},
                     .real = false};
  return known.behaviour;
}

namespace {

/// Order of behaviours in a program: those of behaviours(), then kernels of files by name.
auto order_of(const Behaviour* behaviour) {
  const auto& own = behaviours();
  const std::less<> before;
  const bool listed = !before(behaviour, own.data()) && before(behaviour, own.data() + own.size());
  return std::tuple{listed ? behaviour - own.data() : std::ssize(own), behaviour->name,
                    listed ? nullptr : behaviour};
}

}  // namespace

void Program::add(const Behaviour& behaviour) {
  std::erase_if(behaviours_,
                [&](const Behaviour* one) { return one->name == behaviour.instead_of; });
  const auto place = std::ranges::lower_bound(behaviours_, order_of(&behaviour), {}, order_of);
  if (place == behaviours_.end() || *place != &behaviour) behaviours_.insert(place, &behaviour);
  resolve();
}

void Program::remove(const Behaviour& behaviour) {
  std::erase(behaviours_, &behaviour);
  resolve();
}

bool Program::remove_kernel(std::string_view name) {
  const auto is_it = [&](const Behaviour* one) {
    return one->name == name && std::get<0>(order_of(one)) == std::ssize(engine::behaviours());
  };
  const bool found = std::erase_if(behaviours_, is_it) > 0;
  if (found) resolve();
  return found;
}

bool Program::has(std::string_view behaviour) const {
  return std::ranges::find(behaviours_, behaviour, &Behaviour::name) != behaviours_.end();
}

void Program::resolve() {
  static_cast<Choices&>(*this) = {};
  heard_.reset();
  for (const Behaviour* behaviour : behaviours_) {
    if (behaviour->choose != nullptr) behaviour->choose(*this);
    for (const Effect& effect : behaviour->effects)
      for (const ModelEvent event : {effect.at, effect.until})
        heard_.set(static_cast<size_t>(event));
  }
}

void check_behaviours(const RunConfig& config) {
  for (const Behaviour* behaviour : config.program.behaviours()) {
    if (behaviour->refusal == nullptr) continue;
    if (const std::string_view why = behaviour->refusal(config); !why.empty())
      throw InputError(fmt::format("the program {} has {}, {}; take it out (program={}~{})",
                                   config.program.name, behaviour->name, why, config.program.name,
                                   behaviour->name));
  }
}

void check_behaviours_on_real(const Program& program, const std::string& on) {
  for (const Behaviour* behaviour : program.behaviours())
    if (!behaviour->real)
      throw InputError(
          fmt::format("the program {} has {}, which a virtual device alone can have, and on is "
                      "{}; give program={}:real, or on=virtual:MACHINE",
                      program.name, behaviour->name, on, program.name));
}

}  // namespace frugal::engine
