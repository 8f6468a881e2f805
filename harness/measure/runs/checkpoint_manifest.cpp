#include "harness/measure/runs/checkpoint_manifest.h"

#include <fmt/format.h>

#include <filesystem>

#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* schema = "frugal.checkpoint/1";

TrainingCheckpoint::File file_from(const JsonObject& object) {
  TrainingCheckpoint::File file = {object.require<std::string>("name"), object.integer("bytes", 0),
                                   object.require<std::string>("hash")};
  if (file.name != fs::path(file.name).filename())
    object.fail("name", fmt::format("is \"{}\"; it must be a file beside the manifest", file.name));
  return file;
}

std::pair<int64_t, double> point_from(const JsonObject& manifest, const json& point) {
  if (!point.is_array() || point.size() != 2 || !point[0].is_number_integer() ||
      !point[1].is_number())
    manifest.fail("held_out", "must be a list of [step, loss]");
  return {point[0].get<int64_t>(), point[1].get<double>()};
}

}  // namespace

TrainingCheckpoint read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / manifest_name).string();
  const json content = load_json(path);
  const JsonObject manifest(content, path);
  if (const auto found = manifest.require<std::string>("schema"); found != schema)
    manifest.fail("schema", fmt::format("is \"{}\"; this program reads \"{}\"", found, schema));
  TrainingCheckpoint checkpoint;
  checkpoint.folder = folder;
  checkpoint.step = manifest.integer("step", 0);
  (void)manifest.object("identity");
  checkpoint.identity = manifest.at("identity");
  for (const JsonObject& file : manifest.objects("files"))
    checkpoint.files.push_back(file_from(file));
  checkpoint.losses = manifest.require<std::vector<double>>("losses");
  checkpoint.gradient_norms = manifest.require<std::vector<double>>("gradient_norms");
  const json& held_out = manifest.at("held_out");
  if (!held_out.is_array()) manifest.fail("held_out", "must be a list of [step, loss]");
  for (const json& point : held_out) checkpoint.held_out.push_back(point_from(manifest, point));
  return checkpoint;
}

json to_json(const TrainingCheckpoint& checkpoint) {
  json files = json::array();
  for (const auto& [name, bytes, hash] : checkpoint.files)
    files.push_back({{"name", name}, {"bytes", bytes}, {"hash", hash}});
  return {{"schema", schema},
          {"step", checkpoint.step},
          {"identity", checkpoint.identity},
          {"losses", checkpoint.losses},
          {"gradient_norms", checkpoint.gradient_norms},
          {"held_out", checkpoint.held_out},
          {"files", files}};
}

}  // namespace frugal::harness
