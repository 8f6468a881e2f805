// Layers and training steps beside what a virtual machine predicts of them.
#include "harness/settings/models.h"

#include <fmt/format.h>

#include "harness/measure/runs/whole_model.h"
#include "harness/validate/group.h"

namespace frugal::harness {
namespace {

struct ValidatedModel {
  std::string key, what;
  RunConfig config;
  bool layer = true;
};

/// Small ones on a processor, so that a round does not last long; those of papers on a GPU.
std::vector<ValidatedModel> validated_models(bool gpu) {
  RunConfig layer, step;
  layer.model = {.name = "gpt",
                 .layers = 1,
                 .hidden = gpu ? 6144 : 384,
                 .heads = gpu ? 64 : 6,
                 .sequence = gpu ? 2048 : 192,
                 .vocabulary = 256,
                 .dropout = 0.1};
  step.model = find_model(gpu ? "gpt-355m" : "gpt-3m");
  layer.micro_batch = gpu ? 4 : 2;
  step.micro_batch = 2;
  layer.type = step.type = gpu ? DType::bf16 : DType::f32;
  return {{fmt::format("layer/h{}-s{}", layer.model.hidden, layer.model.sequence),
           fmt::format("a layer, forward and backward, hidden size {}", layer.model.hidden), layer},
          {"step/" + step.model.name, "a training step of " + step.model.name, step, false}};
}

std::vector<Probe> model_probes(Workbench& bench) {
  std::vector<Probe> probes;
  for (const ValidatedModel& model : validated_models(bench.on_gpu())) {
    const auto run = std::make_shared<WholeModel>(bench.target().cluster(model.config),
                                                  model.config, model.layer);
    probes.push_back({.key = model.key, .what = model.what, .unit = "s", .seconds = [run] {
                        return run->seconds();
                      }});
  }
  return probes;
}

/// On the virtual machine of the target's data sheet; none where there is no sheet.
std::vector<Expectation> predicted(const ValidatedModel& model, const Target& target) {
  const std::optional<Machine>& machine = target.machine();
  if (!machine) return {};
  WholeModel run(make_virtual_cluster(model.config, *machine), model.config, model.layer);
  return {{run.seconds(), fmt::format("the prediction of the virtual machine {}", machine->name)}};
}

std::vector<Finding> judge_models(const Watched& watched) {
  std::vector<Finding> checks;
  const Target& target = watched.bench.target();
  for (const ValidatedModel& model : validated_models(watched.bench.on_gpu())) {
    const Series& series = *watched.find(model.key);
    for (Finding& check :
         against_expectations("models", watched, series, predicted(model, target))) {
      if (check.expected.empty())
        check.advice = watched.bench.on_gpu()
                           ? "--hardware MACHINE has predictions; or --reference FILE"
                           : "frugal peak --machine mine.json describes this processor; then "
                             "--hardware ./mine.json has predictions; or --reference FILE";
      checks.push_back(std::move(check));
    }
  }
  return checks;
}

}  // namespace

CheckGroup models_group() {
  return {.name = "models",
          .question = "do layers and training steps take what was predicted?",
          .probes = model_probes,
          .judge = judge_models};
}

}  // namespace frugal::harness
