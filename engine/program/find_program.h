#pragma once
#include <string>
#include <vector>

#include "engine/program/behaviour.h"

namespace frugal::engine {

/// Evidence that a program does something.
enum class BehaviourStatus : uint8_t {
  documented,  ///< in its source, or in its paper
  counted,     ///< in what was counted of it while it ran
  supposed     ///< nowhere: it would explain a number
};
constexpr Names names_of(BehaviourStatus) { return {"documented", "counted", "supposed"}; }

/// One behaviour of a program, and how it is known.
struct KnownBehaviour {
  const Behaviour* behaviour;
  BehaviourStatus status;
  std::string evidence;  ///< a sentence of the paper; a repository's file, line and commit; a count
};

/// A file of programs/.
struct ProgramFile {
  std::string name, description;
  std::vector<KnownBehaviour> behaviours;
};
/// Finds a program by its name, or reads this file. Throws InputError that names the file, the key
/// and what is allowed.
ProgramFile find_program_file(const std::string& name_or_path);
/// Names of programs/.
std::vector<std::string> program_names();

/// The program that a text says: programs, files of them and behaviours with "+" between them, of
/// which "~" takes behaviours out again. At the end, ":memory", ":time" and ":messages" leave those
/// that change one of these, and ":real" those that a device that computes can have.
/// "hugging-face-2024+mini-s", "megatron-lm-2022~causal-masks", "megatron-lm-2022:real"; "frugal"
/// is none.
///
/// The name of the result says the same without files. Throws InputError for what is no program and
/// no behaviour, with the nearest ones.
Program find_program(const std::string& text);

/// Behaviours of a text's program, in the order of behaviours(), and how each is known: by the last
/// term that has it. A behaviour that a text names itself is supposed.
std::vector<KnownBehaviour> known_behaviours(const std::string& text);

}  // namespace frugal::engine
