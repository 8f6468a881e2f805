#include "engine/program/find_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/support/error.h"
#include "kernels/support/named_file.h"

namespace frugal::engine {
namespace {

constexpr NamedFolder programs{"programs/", "program"};
constexpr std::string_view none = "frugal";
/// Bounds of a kernel: bytes for each byte of its tensor, and launches.
constexpr double most_bytes = 1000;
constexpr int most_launches = 1000;

std::vector<std::string> behaviour_names() {
  std::vector<std::string> names;
  for (const Behaviour& behaviour : behaviours()) names.emplace_back(behaviour.name);
  return names;
}

const Behaviour* find_behaviour(std::string_view name) {
  const auto found = std::ranges::find(behaviours(), name, &Behaviour::name);
  return found == behaviours().end() ? nullptr : &*found;
}

/// Names near this one, or else all.
std::string candidates(const std::string& name, const std::vector<std::string>& known) {
  const auto near = nearest(name, known);
  return fmt::format("{} {}", near.empty() ? "known are" : "did you mean",
                     fmt::join(near.empty() ? known : near, ", "));
}

/// A kernel's description: {"kernel", "does", "at", "bytes"} and, optionally, "launches".
const Behaviour& read_kernel(const JsonObject& entry) {
  entry.allow_only({"kernel", "does", "at", "bytes", "launches", "status", "evidence"});
  ProgramKernel kernel{.name = entry.require<std::string>("kernel"),
                       .does = entry.require<std::string>("does"),
                       .at = {},
                       .bytes = entry.require<double>("bytes"),
                       .launches = static_cast<int>(entry.optional<int64_t>("launches", 1))};
  if (kernel.name.empty() || kernel.name.find_first_of("+~:/.*") != std::string::npos ||
      find_behaviour(kernel.name) != nullptr)
    entry.fail("kernel", fmt::format("is \"{}\"; it must be a name of its own, without + ~ : / . *",
                                     kernel.name));
  const auto at = entry.require<std::string>("at");
  const auto event = kernel_events().find(at);
  if (event == kernel_events().end())
    entry.fail("at",
               fmt::format("is \"{}\", which is no event; known are {}", at, kernel_event_names()));
  kernel.at = event->second;
  if (!(kernel.bytes > 0 && kernel.bytes <= most_bytes))
    entry.fail("bytes",
               fmt::format("is {}; it must be above 0 and at most {}", kernel.bytes, most_bytes));
  if (kernel.launches < 1 || kernel.launches > most_launches)
    entry.fail("launches",
               fmt::format("is {}; it must be from 1 to {}", kernel.launches, most_launches));
  return behaviour_of(kernel);
}

const Behaviour& read_named(const JsonObject& entry) {
  entry.allow_only({"behaviour", "status", "evidence"});
  const auto name = entry.require<std::string>("behaviour");
  const Behaviour* const behaviour = find_behaviour(name);
  if (behaviour == nullptr)
    entry.fail("behaviour", fmt::format("is \"{}\", which is none; {}", name,
                                        candidates(name, behaviour_names())));
  return *behaviour;
}

KnownBehaviour read_behaviour(const JsonObject& entry) {
  const Behaviour& behaviour = entry.has("kernel") ? read_kernel(entry) : read_named(entry);
  const auto said = entry.require<std::string>("status");
  const auto status = from_name<BehaviourStatus>(said);
  if (!status)
    entry.fail("status",
               fmt::format("is \"{}\"; it must be documented, counted or supposed", said));
  const auto evidence = entry.require<std::string>("evidence");
  if (evidence.empty()) entry.fail("evidence", "is empty; say how it is known");
  return {&behaviour, *status, evidence};
}

/// A term of a program's text, and what comes before it.
struct Term {
  char sign;
  std::string name;
};

std::vector<Term> terms_of(const std::string& text) {
  std::vector<Term> terms;
  size_t begin = 0;
  char sign = '+';
  while (begin <= text.size()) {
    const size_t end = std::min(text.find_first_of("+~", begin), text.size());
    terms.push_back({sign, text.substr(begin, end - begin)});
    if (terms.back().name.empty())
      throw InputError(fmt::format(
          "the program is \"{}\", which has nothing before or behind a \"+\" or \"~\"; write "
          "programs and behaviours, such as hugging-face-2024+mini-s",
          text));
    if (end < text.size()) sign = text[end];
    begin = end + 1;
  }
  return terms;
}

/// The kernel that a term describes: EVENT*BYTES or EVENT*BYTES*LAUNCHES; null for another term.
const Behaviour* kernel_of_term(const std::string& name) {
  const size_t star = name.find('*');
  if (star == std::string::npos) return nullptr;
  const auto event = kernel_events().find(name.substr(0, star));
  double bytes = 0;
  int launches = 1, read = 0;
  const std::string numbers = name.substr(star + 1);
  const int found = std::sscanf(numbers.c_str(), "%lf%n*%d%n", &bytes, &read, &launches, &read);
  const bool good = found >= 1 && read == static_cast<int>(numbers.size()) && bytes > 0 &&
                    bytes <= most_bytes && launches >= 1 && launches <= most_launches;
  if (event == kernel_events().end() || !good)
    throw InputError(
        fmt::format("the program has \"{}\"; a kernel is EVENT*BYTES or EVENT*BYTES*LAUNCHES, with "
                    "bytes above 0 and at most {} for each byte of the event's tensor, at most {} "
                    "launches, and an event of {}",
                    name, most_bytes, most_launches, kernel_event_names()));
  return &behaviour_of(
      {name, "A kernel that the program's text describes", event->second, bytes, launches});
}

/// Behaviours of a term: one by its name, or all of a program's.
std::vector<KnownBehaviour> behaviours_of_term(const std::string& name) {
  if (const Behaviour* const kernel = kernel_of_term(name))
    return {{kernel, BehaviourStatus::supposed, "named by itself"}};
  if (const Behaviour* const one = find_behaviour(name))
    return {{one, BehaviourStatus::supposed, "named by itself"}};
  std::vector<std::string> known = program_names();
  if (!is_path(name) && std::ranges::find(known, name) == known.end()) {
    for (const std::string& behaviour : behaviour_names()) known.push_back(behaviour);
    throw InputError(fmt::format(
        "no program and no behaviour is called \"{}\"; {}, or give the path of a program's file "
        "(FILE.json)",
        name, candidates(name, known)));
  }
  return find_program_file(name).behaviours;
}

/// Selects the behaviours that ":memory" and the like leave.
bool leaves(std::string_view part, const Behaviour& behaviour) {
  return part == "real" ? behaviour.real : part == name_of(behaviour.changes);
}
constexpr std::array<std::string_view, 4> parts{"memory", "time", "messages", "real"};

/// Takes the parts from behind the text.
std::vector<std::string> take_parts(std::string& text) {
  std::vector<std::string> all;
  const std::string whole = text;
  for (size_t colon = 0; (colon = text.rfind(':')) != std::string::npos; text.resize(colon)) {
    const std::string said = text.substr(colon + 1);
    if (std::ranges::find(parts, said) == parts.end())
      throw InputError(fmt::format("the program is \"{}\"; behind a colon it must be one of {}",
                                   whole, fmt::join(parts, ", ")));
    all.push_back(said);
  }
  return all;
}

/// Text of the same program without files.
std::string without_files(const std::string& text, const std::vector<Term>& terms,
                          const Program& program) {
  if (std::ranges::none_of(terms, [](const Term& term) { return is_path(term.name); })) return text;
  std::string name;
  for (const Behaviour* behaviour : program.behaviours())
    name += fmt::format("{}{}", name.empty() ? "" : "+", term_of(*behaviour));
  return name;
}

}  // namespace

std::string name_of(const Program& program) {
  return program.name.empty() ? std::string(none) : program.name;
}

ProgramFile find_program_file(const std::string& name_or_path) {
  const NamedFile file = find_file(programs, name_or_path);
  const JsonObject root(file.content, file.name);
  root.allow_only({"schema", "name", "description", "behaviours"});
  if (const auto schema = root.require<std::string>("schema"); schema != "frugal.program/2")
    root.fail("schema", fmt::format("is \"{}\"; it must be \"frugal.program/2\"", schema));
  ProgramFile program{
      root.require<std::string>("name"), root.require<std::string>("description"), {}};
  for (const JsonObject& entry : root.objects("behaviours")) {
    const KnownBehaviour known = read_behaviour(entry);
    if (std::ranges::find(program.behaviours, known.behaviour, &KnownBehaviour::behaviour) !=
        program.behaviours.end())
      entry.fail(entry.has("kernel") ? "kernel" : "behaviour",
                 fmt::format("is \"{}\" a second time", known.behaviour->name));
    program.behaviours.push_back(known);
  }
  return program;
}

std::vector<std::string> program_names() { return programs.names(); }

std::vector<KnownBehaviour> known_behaviours(const std::string& text) {
  std::string rest = text;
  (void)take_parts(rest);
  std::vector<KnownBehaviour> all;
  const Program program = find_program(text);
  for (const Behaviour* behaviour : program.behaviours())
    for (const Term& term : terms_of(rest)) {
      if (term.sign == '~') continue;
      for (const KnownBehaviour& one : behaviours_of_term(term.name)) {
        if (one.behaviour != behaviour) continue;
        if (!all.empty() && all.back().behaviour == behaviour) all.pop_back();
        all.push_back(one);
      }
    }
  return all;
}

Program find_program(const std::string& text) {
  if (text == none) return {};
  std::string rest = text;
  const std::vector<std::string> left = take_parts(rest);
  const std::vector<Term> terms = terms_of(rest);
  Program program;
  for (const auto& [sign, name] : terms) {
    if (sign == '~' && program.remove_kernel(name)) continue;
    for (const KnownBehaviour& one : behaviours_of_term(name))
      sign == '+' ? program.add(*one.behaviour) : program.remove(*one.behaviour);
  }
  const std::vector<const Behaviour*> whole = program.behaviours();
  for (const Behaviour* behaviour : whole)
    if (!left.empty() && std::ranges::none_of(left, [&](const std::string& part) {
          return leaves(part, *behaviour);
        }))
      program.remove(*behaviour);
  if (program.behaviours().empty()) return {};
  program.name = without_files(text, terms, program);
  return program;
}

}  // namespace frugal::engine
