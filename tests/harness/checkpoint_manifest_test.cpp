#include "harness/measure/runs/checkpoint_manifest.h"

#include <gmock/gmock.h>

#include <fstream>

#include "kernels/support/error.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const TrainingCheckpoint checkpoint = {.folder = "",
                                       .step = 7,
                                       .identity = {{"optimizer", "sgd"}},
                                       .files = {{"rank-0000.safetensors", 8, "0123"}},
                                       .losses = {3, 2.5},
                                       .gradient_norms = {1, 1.5},
                                       .held_out = {{5, 2.25}}};

/// What reading a manifest says, in which a key has another value; "" takes the key away.
std::string error_of(const std::string& key, const json& value) {
  const testing::Folder folder;
  json manifest = to_json(checkpoint);
  if (!key.empty()) manifest[key] = value;
  if (value == "") manifest.erase(key);
  std::ofstream(folder / std::string(manifest_name)) << manifest.dump();
  return message_of<InputError>(
      [&] { EXPECT_EQ(to_json(read_manifest(folder.path())), manifest); });
}

TEST(CheckpointManifests, AreReadAsTheyWereWritten) {
  EXPECT_EQ(to_json(checkpoint), json::parse(R"({
    "schema": "frugal.checkpoint/1", "step": 7, "identity": {"optimizer": "sgd"},
    "files": [{"name": "rank-0000.safetensors", "bytes": 8, "hash": "0123"}],
    "losses": [3, 2.5], "gradient_norms": [1, 1.5], "held_out": [[5, 2.25]]})"));
  EXPECT_EQ(error_of("", nullptr), "nothing was thrown");
}

TEST(CheckpointManifests, ThatAreWrongAreRefusedByKey) {
  for (const char* key :
       {"schema", "step", "identity", "files", "losses", "gradient_norms", "held_out"}) {
    EXPECT_THAT(error_of(key, ""), HasSubstr(std::string(key) + " is missing"));
    EXPECT_THAT(error_of(key, "x"), HasSubstr(std::string("manifest.json: ") + key));
  }
  EXPECT_THAT(error_of("step", -1), HasSubstr("step is -1"));
  EXPECT_THAT(error_of("held_out", {{1}}), HasSubstr("held_out must be a list of [step, loss]"));
  EXPECT_THAT(error_of("losses", {1, "x"}),
              HasSubstr("losses is [1,\"x\"] (array); it must be a list of numbers"));
  EXPECT_THAT(error_of("files", {{{"name", "../x"}, {"bytes", 1}, {"hash", "0"}}}),
              HasSubstr("files[0].name is \"../x\"; it must be a file beside the manifest"));
}

}  // namespace
}  // namespace frugal::harness
