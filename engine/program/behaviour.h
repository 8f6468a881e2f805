#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/effect.h"

namespace frugal::engine {

struct RunConfig;

/// First thing that a behaviour changes. One that keeps or copies takes time, too.
enum class Changes : uint8_t { memory, time, messages };
constexpr Names names_of(Changes) { return {"memory", "time", "messages"}; }

/// One thing that programs do and their technique does not need, which a run can be told to do
/// (RunConfig::program).
struct Behaviour {
  std::string_view name;  ///< "float32-logits"
  Changes changes;
  std::string_view does;               ///< in one sentence, for documentation
  std::vector<Effect> effects = {};    ///< at events of the model
  void (*choose)(Choices&) = nullptr;  ///< how modules and devices differ; null: they do not
  /// The part of a configuration that excludes it, behind "and"; null or empty: none.
  std::string_view (*refusal)(const RunConfig&) = nullptr;
  /// False for what a virtual device's clock or memory alone can have.
  bool real = true;
  /// Another one that a program cannot have at the same time: the last that is added stays.
  std::string_view instead_of = {};
};

namespace effects {

using Choice = void (*)(Choices&);
using Refusal = std::string_view (*)(const RunConfig&);

/// A behaviour of virtual devices alone.
Behaviour timing(std::string_view name, std::string_view does, Choice choose,
                 Changes changes = Changes::time, std::string_view instead_of = {},
                 Refusal refusal = nullptr);
/// Behaviours of replicas that sum whole gradients, or divide the optimizer's state alone.
std::vector<Behaviour> of_sums();
/// Behaviours of a virtual machine's clock: kernels, and hosts with their messages.
std::vector<Behaviour> of_kernels();
std::vector<Behaviour> of_hosts();

}  // namespace effects

/// All of them, in the order of documentation.
const std::vector<Behaviour>& behaviours();

/// A kernel that a program runs besides, as its file describes it: time on a virtual device.
struct ProgramKernel {
  std::string name, does;
  ModelEvent at;
  double bytes = 0;  ///< that it moves for each byte of the event's tensor
  int launches = 1;
};
/// The behaviour that runs this kernel: the same one for the same description.
const Behaviour& behaviour_of(const ProgramKernel& kernel);
/// Name of a behaviour where a program's file is not at hand: of a kernel its description.
std::string term_of(const Behaviour& behaviour);
/// Events at which a program's file may run a kernel: "layer-ends".
const std::map<std::string_view, ModelEvent>& kernel_events();
/// Their names, by commas.
std::string kernel_event_names();

/// Throws InputError for a behaviour of the run's program that its configuration cannot have.
void check_behaviours(const RunConfig& config);
/// Throws for one that a device that computes cannot have; `on` is what messages call it.
void check_behaviours_on_real(const Program& program, const std::string& on);

}  // namespace frugal::engine
