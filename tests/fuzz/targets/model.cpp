#include <nlohmann/json.hpp>

#include "harness/huggingface/hugging_face_config.h"
#include "harness/settings/config_json.h"
#include "harness/settings/models.h"
#include "kernels/support/json_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// What --model reads: the project's own keys, or a config.json of Hugging Face's library.
void read_model(const std::string& path) {
  const engine::ModelConfig model = harness::find_model(path);
  model.validate();
  const nlohmann::json written = harness::to_json(model);
  require_same(written, harness::to_json(
                            harness::find_model(scratch_file("again/model.json", written.dump()))));
  if (!harness::is_hugging_face(kernels::load_json(path))) return;
  engine::ModelConfig again = harness::find_model(
      scratch_file("again/config.json", harness::to_hugging_face(model).dump()));
  again.name = model.name;
  // What the library's files always say and the engine's need not.
  engine::ModelConfig same = model;
  same.kv_heads = model.key_value_heads();
  same.head_width = model.head_size();
  same.intermediate = model.intermediate_size();
  require_same(harness::to_json(same), harness::to_json(again));
}

const bool model_added = add_target({"model", "config.json", read_model});

}  // namespace
}  // namespace frugal::testing
