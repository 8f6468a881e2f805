#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/program.h"

namespace frugal::engine {

struct RunConfig;

/// What a behaviour changes first of all. One that keeps or copies takes time, too.
enum class Changes : uint8_t { memory, time, messages };
constexpr Names names_of(Changes) { return {"memory", "time", "messages"}; }

/// One thing that programs do and their technique does not need, which a run can be told to do
/// (RunConfig::program).
struct Behaviour {
  std::string_view name;  ///< "float32-logits"
  Changes changes;
  std::string_view does;  ///< in one sentence, for documentation
  bool (*has)(const Program&);
  void (*put)(Program&, bool on);
  /// What a configuration has that this cannot be with; empty where it can.
  std::string_view (*why_not)(const RunConfig&);
  /// Whether a device that computes has it, too; otherwise it is of a virtual one's clock or
  /// memory.
  bool real = false;
};

/// All of them, in the order of documentation.
const std::vector<Behaviour>& behaviours();

/// Throws InputError for a behaviour of the run's program that its configuration cannot have.
void check_behaviours(const RunConfig& config);
/// Throws for one that a device that computes cannot have; `on` is what messages call it.
void check_behaviours_on_real(const Program& program, const std::string& on);

}  // namespace frugal::engine
