#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "experiments/mst2024/artifacts.h"
#include "experiments/mst2024/length_artifact.h"

namespace frugal::mst2024 {
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

std::vector<Search> searches(const std::string& table, const Models& models, Gradients gradients) {
  std::vector<Search> all;
  for (const std::string& model : models)
    for (const Technique& technique : techniques) {
      const Search search = search_of(model, technique, gradients);
      all.push_back(search);
      if (const auto tokens = reported(table, model, technique))
        all.push_back({at_reported_length(search.id), search.config, *tokens});
    }
  return all;
}

/// Tables 2, 3 and 4: the longest sequences of some models, without and with recomputation and
/// mini-sequences, how many times as long they are, and what a step takes at the lengths that the
/// paper has.
class LengthTable final : public LengthArtifact {
 public:
  LengthTable(const std::string& name, const Models& models, Gradients gradients)
      : LengthArtifact(name, papers_machine, searches(name, models, gradients),
                       "the shorter length of a ratio is of 5 to 10 thousand, in whole thousands"),
        name_(name),
        models_(models) {}

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    const Place place{setting, records};
    std::vector<Cell> cells;
    for (const std::string& model : models_) {
      const auto case_of = [&](const Technique& technique) {
        return fmt::format("{}/{}", model, technique.name);
      };
      for (const Technique& technique : techniques)
        cells.push_back(length(place, model, technique.name, case_of(technique)));
      for (const Technique& technique : {vanilla, recomputation})
        cells.push_back(ratio(place, model,
                              fmt::format("{} / {}", mini_sequence.name, technique.name),
                              case_of(mini_sequence), case_of(technique)));
      for (const Technique& technique : techniques)
        if (reported(name_, model, technique))
          cells.push_back(peak(place, model, fmt::format("{}, peak at its length", technique.name),
                               at_reported_length(case_of(technique))));
    }
    return cells;
  }

 private:
  std::string name_;
  Models models_;
};

/// Table 12: mini-sequences with Ulysses; each of several GPUs has a part of the sequence.
class Scaling final : public LengthArtifact {
 public:
  Scaling()
      : LengthArtifact("table12", papers_machine, runs(),
                       "the paper says of the lengths that they scale linearly") {}

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    const Place place{setting, records};
    std::vector<Cell> cells;
    for (const char* model : models) {
      for (const int gpus : sizes)
        cells.push_back(
            length(place, model, fmt::format("length({})", gpus), case_of(model, gpus)));
      for (const int gpus : {4, 8})
        cells.push_back(ratio(place, model, fmt::format("length({}) / length(2)", gpus),
                              case_of(model, gpus), case_of(model, 2)));
    }
    return cells;
  }

 private:
  static constexpr std::array models = {"llama3-8b", "llama2-7b"};
  static constexpr std::array sizes = {1, 2, 4, 8};

  static std::string case_of(const std::string& model, int gpus) {
    return fmt::format("{}/{} GPUs", model, gpus);
  }

  static std::vector<Search> runs() {
    std::vector<Search> all;
    for (const char* model : models)
      for (const int gpus : sizes) {
        Search& search = all.emplace_back(search_of(model, mini_sequence));
        search.id = case_of(model, gpus);
        search.config.context_parallel = gpus;
      }
    return all;
  }
};

}  // namespace

std::vector<const Artifact*> longest_sequences() {
  static const LengthTable table2("table2", {"llama3-8b", "llama2-7b"}, Gradients::stepped),
      table3("table3", {"mistral-7b", "qwen2-7b", "gemma-2-9b"}, Gradients::stepped),
      table4("table4", {"llama3-8b", "llama2-7b"}, Gradients::resident);
  static const Scaling table12;
  return {&table2, &table3, &table4, &table12};
}

}  // namespace frugal::mst2024
