#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "harness/settings/given.h"
#include "harness/settings/models.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "tests/support/message_of.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Stands for a member of any type.
struct Any {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

/// How many members an aggregate has.
template <class T, class... Members>
constexpr size_t members() {
  if constexpr (requires { T{Members{}..., Any{}}; })
    return members<T, Members..., Any>();
  else
    return sizeof...(Members);
}

size_t count_of(FieldOf of) {
  return static_cast<size_t>(std::count_if(fields().begin(), fields().end(),
                                           [of](const Field& field) { return field.of == of; }));
}

template <class... Options>
void expect_all_described() {
  const auto expect = []<class T>(T* /*unused*/) {
    const size_t without = std::is_same_v<T, TrainConfig> ? 1 : 0;  // the optimizer's
    EXPECT_EQ(fields_of<T>().size() + without, members<T>()) << fields_of<T>().front().key;
  };
  (expect(static_cast<Options*>(nullptr)), ...);
}

TEST(Fields, EveryMemberOfAConfigurationHasOne) {
  EXPECT_EQ(count_of(FieldOf::model), members<ModelConfig>());
  expect_all_described<ParallelOptions, ShardOptions, SequenceOptions, RecomputeOptions,
                       ActivationOptions, OffloadOptions, BatchOptions, NumericsOptions,
                       TrainConfig, EvaluationOptions>();
}

TEST(Fields, AreKnownByOneKeyAndOneFlag) {
  std::set<std::string> names;
  for (const Field& field : fields()) {
    EXPECT_TRUE(names.insert(field.key).second) << field.key;
    EXPECT_TRUE(field.flag.empty() || names.insert(field.flag).second) << field.flag;
    EXPECT_FALSE(field.help.empty()) << field.key;
    EXPECT_EQ(&field_of(field.key), &field);
  }
}

/// A value that a field has not by default.
json other_value(const Field& field) {
  if (field.type.is_switch()) return field.usual != true;
  if (field.key == "rotary") return {{"base", 500000.0}};
  const json& names = field.type.schema.value("enum", json());
  if (!names.is_null()) return names.back() == field.usual ? names.front() : names.back();
  if (field.key == "program") return "float32-norms+kept-outputs";
  for (const char* text : {"7", "0.25", "1/4", "norm+mlp", "other"})
    if (const auto value = field.type.parse(text); value && *value != field.usual) return *value;
  ADD_FAILURE() << field.key;
  return nullptr;
}

TEST(Fields, SayWhatTheyHaveInJsonAndOnTheCommandLine) {
  for (const Field& field : fields()) {
    const json value = other_value(field);
    const RunSettings settings = settings_of({{field.key, value}});
    EXPECT_EQ(field.get(settings), value) << field.key;
    EXPECT_TRUE(settings.is_given(field.key));
    for (const Field& other : fields())
      EXPECT_TRUE(&other == &field || other.get(settings) == other.usual) << other.key;
    const std::string text = field.type.text(value);
    EXPECT_EQ(field.type.value(field.key, text), value) << text;
    const std::string flags = command_flags(settings);
    EXPECT_THAT(flags, ::testing::HasSubstr(field.flag.empty() ? field.key + "=" : field.flag));
  }
}

TEST(Fields, AreReadFromTheJsonThatTheyWrite) {
  for (const Field& field : fields()) {
    if (field.of == FieldOf::command) continue;
    RunConfig config = settings_of({{field.key, other_value(field)}}).config;
    config.model.layers = config.model.hidden = config.model.heads = 1;
    config.model.sequence = config.model.vocabulary = 1;
    if (field.key == "rotary") config.model.positions = PositionKind::rotary;
    if (field.key == "context") config.context_parallel = 2;
    const json written = to_json(config);
    const json& object = field.of == FieldOf::model ? written.at("model") : written;
    EXPECT_TRUE(object.contains(field.key)) << field.key;
    EXPECT_EQ(to_json(run_config_from_json(JsonObject(written, "f"))), written) << field.key;
  }
}

TEST(Fields, WithoutAChoiceReadAsBefore) {
  RunConfig config;
  config.model = {
      .name = "m", .layers = 1, .hidden = 1, .heads = 1, .sequence = 1, .vocabulary = 1};
  json written = to_json(config);
  for (const char* key : {"attention", "schedule", "pipeline_parallel_size", "keep_outputs"})
    written.erase(key);
  EXPECT_EQ(run_config_from_json(JsonObject(written, "f")).attention, AttentionKind::separate);
  written.erase("recompute");
  EXPECT_THAT(message_of<InputError>([&] { run_config_from_json(JsonObject(written, "f")); }),
              ::testing::HasSubstr("recompute is missing"));
}

TEST(Said, CombinationsAreOneForEachValue) {
  const json given = {
      {"tensor_parallel_size", {1, 2}}, {"recompute", {"none", "full"}}, {"steps", 3}};
  EXPECT_EQ(swept_keys(given), (std::vector<std::string>{"tensor_parallel_size", "recompute"}));
  const std::vector<json> all = combinations(given);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0], json({{"tensor_parallel_size", 1}, {"recompute", "none"}, {"steps", 3}}));
  EXPECT_EQ(all[1], json({{"tensor_parallel_size", 1}, {"recompute", "full"}, {"steps", 3}}));
  EXPECT_EQ(all[2], json({{"tensor_parallel_size", 2}, {"recompute", "none"}, {"steps", 3}}));
}

TEST(Said, TooManyCombinationsAreRefusedBeforeTheyAreMade) {
  json given;
  for (const char* key : {"layers", "hidden_size", "microbatches"})
    for (int value = 1; value <= 10; ++value) given[key].push_back(value);
  EXPECT_EQ(combinations(given).size(), 1000U);
  for (int value = 1; value <= 1000; ++value) given["seed"].push_back(value);
  EXPECT_EQ(message_of<InputError>([&] { (void)combinations(given); }),
            "layers, hidden_size, microbatches, seed have 1000000 combinations; at most 1000 are "
            "run, give fewer values");
}

TEST(Sizes, BytesHaveTheirUnit) {
  const ValueType bytes = byte_count();
  for (const auto& [text, size] : std::map<std::string, int64_t>{{"80GiB", 85899345920},
                                                                 {"80gib", 85899345920},
                                                                 {"80GB", 80000000000},
                                                                 {"1.5KiB", 1536},
                                                                 {"0.5kb", 500},
                                                                 {"7B", 7},
                                                                 {"3kB", 3000},
                                                                 {"3MiB", 3145728},
                                                                 {"3MB", 3000000},
                                                                 {"3TB", 3000000000000},
                                                                 {"2TiB", int64_t{1} << 41}}) {
    EXPECT_EQ(bytes.value("--memory", text), size) << text;
    EXPECT_EQ(bytes.value("--memory", bytes.text(size)), size) << bytes.text(size);
  }
  EXPECT_EQ(bytes.text(80000000000), "80GB");
  EXPECT_EQ(bytes.text(85899345920), "80GiB");
  EXPECT_EQ(bytes.text(85899345921), "85899345921B");
  EXPECT_EQ(bytes.text(3145728), "3MiB");
  EXPECT_EQ(bytes.text(3072), "3KiB");
  for (const char* text : {"80", "80G", "80 GiB", "1.5B", "GiB", "0GiB", "8e9B", "9999999999GiB"})
    EXPECT_EQ(message_of<InputError>([&] { (void)bytes.value("--memory", text); }),
              "--memory is \"" + std::string(text) +
                  "\"; it must be bytes with their unit, such as 80GiB (2^30 bytes each) or 80GB "
                  "(10^9): B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
}

TEST(Sizes, TokensAreCountedInThousandsOf1024) {
  const ValueType& tokens = field_of("sequence_length").type;
  EXPECT_EQ(tokens.values("--sequence", "8k,131072,1M"),
            (std::vector<json>{8192, 131072, 1 << 20}));
  for (const char* text : {"8kB", "0k", "1.0001k", "1.5", "k"})
    EXPECT_THAT(message_of<InputError>([&] { (void)tokens.value("--sequence", text); }),
                ::testing::EndsWith("on the command line also 8k for 8192 and 1M for 1048576"));
}

/// Name of a model with other values, as the command line gives them.
std::string name_with(const char* model, const json& values) {
  return with_values(find_model(model), values).name;
}

TEST(Models, WithOtherValuesHaveAStar) {
  EXPECT_EQ(name_with("llama3-8b", json::object()), "llama3-8b");
  EXPECT_EQ(name_with("llama3-8b", {{"layers", 32}, {"key_value_heads", 8}, {"steps", 7}}),
            "llama3-8b");
  for (const Field& field : fields()) {
    if (field.of != FieldOf::model || field.key == "name") continue;
    json values = {{field.key, other_value(field)}};
    EXPECT_EQ(name_with("22B", values), "22B*") << values;
    values["name"] = "mine";
    EXPECT_EQ(name_with("22B", values), "mine");
  }
  ModelConfig starred = find_model("llama3-8b");
  starred.name = "llama3-8b*";
  EXPECT_EQ(with_values(starred, {{"layers", 2}}).name, "llama3-8b*");
}

TEST(Models, ASizeIsAskedForThatFollowsAReplacedOne) {
  const auto asked = [](const char* model, const json& values) {
    return message_of<InputError>([&] { (void)name_with(model, values); });
  };
  const std::string both =
      "--hidden 8192 --heads 64: llama3-8b states sizes of its own that follow it; give "
      "--intermediate "
      "(28672 keeps the ratio, 14336 the size)";
  EXPECT_EQ(asked("llama3-8b", {{"hidden_size", 8192}, {"attention_heads", 64}}),
            both + " and --key-value-heads (16 keeps the ratio, 8 the size)");
  EXPECT_EQ(
      asked("llama3-8b", {{"hidden_size", 8192}, {"attention_heads", 64}, {"key_value_heads", 8}}),
      both);
  EXPECT_THAT(asked("gemma-2-9b", {{"hidden_size", 4096}, {"intermediate_size", 14336}}),
              ::testing::EndsWith("give --head-size (256 keeps the size)"));
  EXPECT_THAT(asked("gemma-2-9b", {{"head_size", 128}}),
              ::testing::EndsWith("give --set query_scale (128 keeps the ratio, 256 the size)"));
  // What follows by itself, and what stays in its ratio, is not asked for.
  EXPECT_EQ(with_values(find_model("22B"), {{"hidden_size", 64}, {"attention_heads", 4}})
                .intermediate_size(),
            256);
  json twice = {{"hidden_size", 7168}, {"attention_heads", 32}, {"intermediate_size", 28672}};
  EXPECT_THAT(asked("gemma-2-9b", twice), ::testing::Not(::testing::HasSubstr("--head-size")));
  twice["key_value_heads"] = 16;
  EXPECT_EQ(name_with("gemma-2-9b", twice), "gemma-2-9b*");
}

/// HACKING.md, "A field": one description, from which all else follows.
struct WarmOptions {
  int64_t batches = 0;
  Recompute until = Recompute::none;

  static void describe(Fields<WarmOptions>& f) {
    f.section(Section::training);
    f.choice("warm_until", &WarmOptions::until, "What is warm then");
    f.number("warm_batches", &WarmOptions::batches, {0, 100}, "Batches before timing")
        .zero("none", "no warm-up")
        .needs([](const WarmOptions& w) { return w.until != Recompute::none; }, "warm_until")
        .draws({0, 7});
  }
  bool operator==(const WarmOptions&) const = default;
};

TEST(Fields, OneMoreIsOneDescription) {
  const engine::Field<WarmOptions>& member = fields_of<WarmOptions>().back();
  static WarmOptions warm;
  const Field field = field_from(
      member, [](auto& /*settings*/) -> auto& { return warm; });
  RunSettings settings;
  EXPECT_EQ(field.flag, "--warm-batches");
  EXPECT_EQ(field.default_text(), "none");
  field.set(settings, field.type.value(field.flag, "7"), field.flag);
  EXPECT_EQ(warm.batches, 7);
  EXPECT_EQ(field.get(settings), 7);
  EXPECT_TRUE(field.is_written(settings)) << "JSON and commands have it";
  EXPECT_NE(warm, WarmOptions());
  EXPECT_EQ(field.type.schema, json({{"type", "integer"}, {"minimum", 0}, {"maximum", 100}}));
  EXPECT_EQ(message_of<InputError>([&] { field.type.value(field.flag, "101"); }),
            "--warm-batches is \"101\"; it must be a whole number from 1 to 100, or none for no "
            "warm-up");
  EXPECT_EQ(member.drawn, (std::vector<FieldValue>{0, 7})) << "what combinations draw";
}

TEST(Fields, CheckTheirMembers) {
  const auto checked = [](const WarmOptions& warm) {
    return message_of<InputError>([&] { check_fields(warm); });
  };
  EXPECT_EQ(checked({.batches = -1, .until = Recompute::full}),
            "warm_batches is -1; it must be from 1 to 100, or 0 for no warm-up");
  EXPECT_EQ(checked({.batches = 7}),
            "warm_batches is 7, which needs warm_until; set that, or drop warm_batches");
  check_fields(WarmOptions{.batches = 7, .until = Recompute::full});
}

}  // namespace
}  // namespace frugal::harness
