#include "engine/program/find_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/support/error.h"
#include "kernels/support/named_file.h"

namespace frugal::engine {
namespace {

constexpr NamedFolder programs{"programs/", "program"};
constexpr std::string_view none = "frugal";
constexpr std::array statuses{BehaviourStatus::documented, BehaviourStatus::counted,
                              BehaviourStatus::supposed};

std::vector<std::string> behaviour_names() {
  std::vector<std::string> names;
  for (const Behaviour& behaviour : behaviours()) names.emplace_back(behaviour.name);
  return names;
}

const Behaviour* find_behaviour(std::string_view name) {
  const auto found = std::ranges::find(behaviours(), name, &Behaviour::name);
  return found == behaviours().end() ? nullptr : &*found;
}

/// Those that are near the name, or else all.
std::string candidates(const std::string& name, const std::vector<std::string>& known) {
  const auto near = nearest(name, known);
  return fmt::format("{} {}", near.empty() ? "known are" : "did you mean",
                     fmt::join(near.empty() ? known : near, ", "));
}

KnownBehaviour read_behaviour(const JsonObject& entry) {
  entry.allow_only({"behaviour", "status", "evidence"});
  const auto name = entry.require<std::string>("behaviour");
  const Behaviour* const behaviour = find_behaviour(name);
  if (behaviour == nullptr)
    entry.fail("behaviour", fmt::format("is \"{}\", which is none; {}", name,
                                        candidates(name, behaviour_names())));
  const auto said = entry.require<std::string>("status");
  const auto status =
      std::ranges::find(statuses, said, [](BehaviourStatus s) { return name_of(s); });
  if (status == statuses.end())
    entry.fail("status",
               fmt::format("is \"{}\"; it must be documented, counted or supposed", said));
  const auto evidence = entry.require<std::string>("evidence");
  if (evidence.empty()) entry.fail("evidence", "is empty; say how it is known");
  return {behaviour, *status, evidence};
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

/// What a term stands for: a behaviour alone, or all of a program's.
std::vector<KnownBehaviour> behaviours_of_term(const std::string& name) {
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

/// Which behaviours ":memory" and the like leave.
using Leaves = bool (*)(const Behaviour&);
template <Changes changes>
bool leaves(const Behaviour& behaviour) {
  return behaviour.changes == changes;
}
constexpr std::array<std::pair<std::string_view, Leaves>, 4> parts{
    {{"memory", leaves<Changes::memory>},
     {"time", leaves<Changes::time>},
     {"messages", leaves<Changes::messages>},
     {"real", [](const Behaviour& behaviour) { return behaviour.real; }}}};

std::vector<std::string_view> part_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, leaves] : parts) names.push_back(name);
  return names;
}

/// Those of the parts behind the text, which becomes shorter by them.
std::vector<Leaves> take_parts(std::string& text) {
  std::vector<Leaves> all;
  const std::string whole = text;
  for (size_t colon = 0; (colon = text.rfind(':')) != std::string::npos; text.resize(colon)) {
    const std::string said = text.substr(colon + 1);
    const auto part =
        std::ranges::find_if(parts, [&](const auto& known) { return known.first == said; });
    if (part == parts.end())
      throw InputError(fmt::format("the program is \"{}\"; behind a colon it must be one of {}",
                                   whole, fmt::join(part_names(), ", ")));
    all.push_back(part->second);
  }
  return all;
}

/// What says the same without files.
std::string without_files(const std::string& text, const std::vector<Term>& terms,
                          const Program& program) {
  if (std::ranges::none_of(terms, [](const Term& term) { return is_path(term.name); })) return text;
  std::string name;
  for (const Behaviour* behaviour : behaviours_of(program))
    name += fmt::format("{}{}", name.empty() ? "" : "+", behaviour->name);
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
      entry.fail("behaviour", fmt::format("is \"{}\" a second time", known.behaviour->name));
    program.behaviours.push_back(known);
  }
  return program;
}

std::vector<std::string> program_names() { return programs.names(); }

std::vector<const Behaviour*> behaviours_of(const Program& program) {
  std::vector<const Behaviour*> all;
  for (const Behaviour& behaviour : behaviours())
    if (behaviour.has(program)) all.push_back(&behaviour);
  return all;
}

std::vector<KnownBehaviour> known_behaviours(const std::string& text) {
  std::string rest = text;
  (void)take_parts(rest);
  std::vector<KnownBehaviour> all;
  for (const Behaviour* behaviour : behaviours_of(find_program(text)))
    for (const Term& term : terms_of(rest))
      for (const KnownBehaviour& one : behaviours_of_term(term.name)) {
        if (one.behaviour != behaviour) continue;
        if (!all.empty() && all.back().behaviour == behaviour) all.pop_back();
        all.push_back(one);
      }
  return all;
}

Program find_program(const std::string& text) {
  if (text == none) return {};
  std::string rest = text;
  const std::vector<Leaves> left = take_parts(rest);
  const std::vector<Term> terms = terms_of(rest);
  Program program;
  for (const auto& [sign, name] : terms)
    for (const KnownBehaviour& one : behaviours_of_term(name))
      one.behaviour->put(program, sign == '+');
  for (const Behaviour& behaviour : behaviours())
    if (!left.empty() &&
        std::ranges::none_of(left, [&](Leaves leaves) { return leaves(behaviour); }))
      behaviour.put(program, false);
  if (behaviours_of(program).empty()) return {};
  program.name = without_files(text, terms, program);
  return program;
}

}  // namespace frugal::engine
