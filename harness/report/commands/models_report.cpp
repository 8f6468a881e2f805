#include "harness/report/commands/models_report.h"

#include "engine/checkpoint/serial_parameters.h"
#include "harness/settings/models.h"

namespace frugal::harness {

Table models_table() {
  Table table{.columns = {{.name = "model"},
                          {.name = "objective"},
                          {.name = "layers", .number = true},
                          {.name = "hidden size", .number = true},
                          {.name = "heads", .number = true},
                          {.name = "of keys and values", .number = true},
                          {.name = "head size", .number = true},
                          {.name = "intermediate size", .number = true},
                          {.name = "sequence length", .number = true},
                          {.name = "vocabulary", .number = true},
                          {.name = "parameters", .number = true}},
              .rows = {}};
  for (const std::string& name : model_names()) {
    const ModelConfig model = find_model(name);
    std::vector<std::string>& row = table.rows.emplace_back(
        std::vector<std::string>{model.name, std::string(name_of(model.objective))});
    for (const int64_t size :
         {model.layers, model.hidden, model.heads, model.key_value_heads(), model.head_size(),
          model.intermediate_size(), model.sequence, model.vocabulary, parameter_count(model)})
      row.push_back(std::to_string(size));
  }
  return table;
}

}  // namespace frugal::harness
