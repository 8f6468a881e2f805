#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "experiments/mst2024/lengths.h"

namespace frugal::experiments::mst2024 {
namespace {

using Models = std::vector<std::string>;

constexpr std::array techniques{vanilla, recomputation, mini_sequence};

/// The length that the paper has of a model, in tokens.
std::optional<int64_t> reported(const std::string& table, const std::string& model,
                                const Technique& technique) {
  const PaperCell* const cell = paper().find_cell(table, model, technique.name);
  if (cell == nullptr) return std::nullopt;
  return std::lround(1000 * cell->value);
}

Declaration length_table(const std::string& name, const Models& models, Gradients gradients) {
  std::vector<Search> searches;
  std::vector<DeclaredCell> cells;
  for (const std::string& model : models) {
    const auto id = [&](const Technique& technique) {
      return fmt::format("{}/{}", model, technique.name);
    };
    for (const Technique& technique : techniques) {
      searches.push_back(search_of(model, technique, gradients));
      if (const auto tokens = reported(name, model, technique))
        searches.push_back({at_reported_length(id(technique)), searches.back().config, *tokens});
      cells.push_back(length(model, technique.name, id(technique)));
    }
    for (const Technique& technique : {vanilla, recomputation})
      cells.push_back(ratio(model, fmt::format("{} / {}", mini_sequence.name, technique.name),
                            id(mini_sequence), id(technique)));
    for (const Technique& technique : techniques)
      if (reported(name, model, technique))
        cells.push_back(peak(model, fmt::format("{}, peak at its length", technique.name),
                             at_reported_length(id(technique))));
  }
  return {.paper = paper(),
          .name = name,
          .program = gradients == Gradients::stepped ? papers_program_with_outputs : papers_program,
          .cases = search_cases(papers_machine, std::move(searches)),
          .cells = [cells = std::move(cells)](const Setting&) { return cells; },
          .complete = complete_length,
          .claims = {claims_of_lengths()}};
}

Declaration table12() {
  std::vector<Search> searches;
  std::vector<DeclaredCell> cells;
  for (const char* model : {"llama3-8b", "llama2-7b"}) {
    const auto id = [&](int gpus) { return fmt::format("{}/{} GPUs", model, gpus); };
    for (const int gpus : {1, 2, 4, 8}) {
      searches.push_back({id(gpus), search_of(model, mini_sequence).config});
      searches.back().config.context_parallel = gpus;
      cells.push_back(length(model, fmt::format("length({})", gpus), id(gpus)));
    }
    for (const int gpus : {4, 8})
      cells.push_back(ratio(model, fmt::format("length({}) / length(2)", gpus), id(gpus), id(2)));
  }
  return {.paper = paper(),
          .name = "table12",
          .program = papers_program,
          .cases = search_cases(papers_machine, std::move(searches)),
          .cells = [cells = std::move(cells)](const Setting&) { return cells; },
          .complete = complete_length,
          .claims = {claims_of_lengths()}};
}

}  // namespace

/// Tables 2, 3 and 4: the longest sequences of some models, without and with recomputation and
/// mini-sequences, how many times as long they are, and what a step takes at the lengths that the
/// paper has. Table 12: mini-sequences with Ulysses; each of several GPUs has a part of the
/// sequence.
std::vector<const Artifact*> longest_sequences() {
  static const DeclaredArtifact two(
      length_table("table2", {"llama3-8b", "llama2-7b"}, Gradients::stepped)),
      three(length_table("table3", {"mistral-7b", "qwen2-7b", "gemma-2-9b"}, Gradients::stepped)),
      four(length_table("table4", {"llama3-8b", "llama2-7b"}, Gradients::accumulated)),
      twelve(table12());
  return {&two, &three, &four, &twelve};
}

}  // namespace frugal::experiments::mst2024
