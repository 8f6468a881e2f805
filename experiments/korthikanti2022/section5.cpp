#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/layers.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr const char* saved = "activation memory saved";
constexpr const char* flops = "additional FLOPs";
constexpr const char* flops_core = "additional FLOPs, attention core counted as its forward pass";
constexpr const char* reduction = "memory reduction";

double activations(const Record& record) { return bytes_kept(record, Kind::activation); }

/// Percent of equation 7 that `recomputing` executed beyond `keeping`, in all layers of the model.
double additional_flops(const Record& recomputing, const Record& keeping) {
  const RunConfig& run = recomputing.config;
  const double per_layer = recomputing.flops.value().hardware - keeping.flops.value().hardware;
  return 100 * per_layer * static_cast<double>(run.model.layers) /
         model_flops(run.model, static_cast<double>(run.micro_batch));
}

double additional_flops_eq8(const ModelConfig& model) {
  return 100 * (hardware_flops_eq8(model, 1) / model_flops(model, 1) - 1);
}

double memory_saved(const Record& after, const Record& before) {
  return 100 * (1 - activations(after) / activations(before));
}
double memory_reduction(const Record& after, const Record& before) {
  return activations(before) / activations(after);
}

constexpr const char* of_the_text[] = {"175B", "530B"};

std::vector<DeclaredCell> section5_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  const auto add = [&](const std::string& name, const char* column, const char* unit,
                       const Technique& without, double (*compare)(const Record&, const Record&)) {
    cells.push_back(layer_cell(
        name, column, unit, name, {without, present},
        [compare](const Record& before, const Record& after) { return compare(after, before); }));
  };
  for (const char* name : of_the_text) {
    add(name, saved, "%", sequence, memory_saved);
    add(name, flops, "%", sequence, additional_flops);
  }
  for (const Model& of : models()) add(of.config.name, reduction, "x", baseline, memory_reduction);
  return cells;
}

std::vector<Cell> section5_formulas() {
  std::vector<Cell> cells;
  for (const char* name : of_the_text) {
    const ModelConfig& m = model(name).config;
    const std::pair<const char*, double> formulas[] = {
        {flops, additional_flops_eq8(m)}, {flops_core, 100 * core_recompute_fraction(m)}};
    for (const auto& [column, value] : formulas)
      cells.push_back(formula_cell(paper(), "section5", name, column, "%", value));
  }
  return cells;
}

/// The printed percentages follow from equations 7 and 8, but not from what recomputing executes.
void contradict(Claim& claim, const Cell& cell) {
  claim.expected = cell.source != Source::formula;
  if (claim.expected && cell.value)
    claim.reason =
        "a contradiction of the paper: computing the attention core again adds its forward pass, "
        "s/(18h); equation 8 charges three times that, s/(6h)";
}

}  // namespace

/// Section 5 and the abstract: what selective recomputation saves and costs, from the memory and
/// the matrix products that one layer executes.
const Artifact& section5() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "section5",
       .cases = layer_cases({.techniques = {baseline, sequence, present}, .cpu_scale = 32}),
       .cells = section5_cells,
       .formulas = section5_formulas,
       .any_size = true,
       .divided = true,
       .claims = {claims_of_cells(
           {{.about = [](const Cell& c) { return c.column == reduction; },
             .id = "memory-5x/{row}",
             .statement = "{row}: activation memory reduced {paper}x (abstract: about 5x)"},
            {.about = [](const Cell& c) { return c.column == saved; },
             .id = "selective-gpt3/{row}/memory",
             .statement = "{row}: selective recomputation saves {paper} % of activation memory"},
            {.about = [](const Cell& c) { return c.column == flops; },
             .id = "equation-8/{row}",
             .statement =
                 "{row}: hardware FLOPs exceed model FLOPs by {paper} % (equations 7 and 8)",
             .adjust = contradict}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
