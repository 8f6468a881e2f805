#include "harness/settings/config_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/settings/field.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

json written(const RunSettings& settings, FieldOf of) {
  json object = json::object();
  for (const Field& field : fields())
    if (field.of == of && field.is_written(settings)) object[field.key] = field.get(settings);
  return object;
}

/// Sets what the object has; a key that must be there throws InputError where it is not.
void read(const JsonObject& object, FieldOf of, RunSettings& settings) {
  for (const Field& field : fields()) {
    if (field.of != of || (!field.required && !object.has(field.key))) continue;
    const json& value = object.at(field.key);
    if (!field.type.accepts(value))
      object.fail(field.key, fmt::format("is {}; it must be {}", value.dump(), field.type.allowed));
    field.set(settings, value, object.file());
  }
}

json schema_of(const Field& field) {
  json schema = field.type.schema;
  schema["description"] = field.help;
  return schema;
}

json schema_of(FieldOf of) {
  json properties = json::object(), required = json::array();
  for (const Field& field : fields()) {
    if (field.of != of) continue;
    properties[field.key] = schema_of(field);
    if (field.required) required.push_back(field.key);
  }
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", required},
          {"properties", properties}};
}

}  // namespace

json to_json(const ModelConfig& model) {
  RunSettings settings;
  settings.config.model = model;
  return written(settings, FieldOf::model);
}

ModelConfig model_from_json(const JsonObject& object) {
  std::vector<std::string> keys;
  for (const Field& field : fields())
    if (field.of == FieldOf::model) keys.push_back(field.key);
  object.allow_only(keys);
  RunSettings settings;
  read(object, FieldOf::model, settings);
  return settings.config.model;
}

json to_json(const RunConfig& config) {
  RunSettings settings;
  settings.config = config;
  json object = written(settings, FieldOf::run);
  object["model"] = to_json(config.model);
  object["global_batch"] = config.micro_batch * config.batch_microbatches();
  return object;
}

RunConfig run_config_from_json(const JsonObject& object) {
  RunSettings settings;
  settings.config.model = model_from_json(object.object("model"));
  read(object, FieldOf::run, settings);
  return settings.config;
}

json model_schema() { return schema_of(FieldOf::model); }

json run_config_schema() {
  json schema = schema_of(FieldOf::run);
  schema["properties"]["model"] = model_schema();
  schema["properties"]["global_batch"] = {
      {"type", "integer"},
      {"minimum", 1},
      {"description", "microbatch_size x microbatches x data_parallel_size"}};
  for (const char* key : {"model", "global_batch"}) schema["required"].push_back(key);
  return schema;
}

json configuration_file_schema() {
  json properties = json::object();
  for (const Field& field : fields()) {
    const json schema = schema_of(field);
    properties[field.key] = schema;
    if (field.type.list)
      properties[field.key] = {
          {"anyOf", {schema, {{"type", "array"}, {"minItems", 1}, {"items", schema}}}}};
  }
  json model = model_schema();
  model.erase("required");
  properties["model"] = {{"anyOf", {schema_of(field_of("model")), model}}};
  properties["global_batch"] = run_config_schema()["properties"]["global_batch"];
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "What frugal's --config reads"},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties", properties}};
}

}  // namespace frugal::harness
