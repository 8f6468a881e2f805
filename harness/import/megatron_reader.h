#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/layer_modules.h"
#include "harness/import/argument_list.h"
#include "harness/import/imported.h"
#include "harness/import/megatron_table.h"

namespace frugal::harness {

/// Copy of a text in lower case.
std::string lower(std::string text);

/// Megatron-LM's arguments by today's names, and the fields that came of them so far.
class MegatronReader {
 public:
  MegatronReader(const ArgumentList& list, const ImportOptions& options, std::string file)
      : list_(list), options_(options), file_(std::move(file)) {}

  /// Reads all arguments. `out` is what they say.
  void read();
  Imported out;

 private:
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Argument* find(std::string_view name) const;
  /// Argument as it stands in the list.
  std::string said(std::string_view name) const { return find(name)->text(); }
  /// One value of an argument; none where it is not there. Throws InputError for an unset variable.
  std::optional<std::string> text(std::string_view name) const;
  /// All values of an argument; a list in brackets is several.
  std::vector<std::string> texts(std::string_view name) const;
  /// One value of an argument in lower case; `otherwise` where it is not there. Throws InputError
  /// for what is none of `allowed`.
  std::string word(std::string_view name, std::initializer_list<std::string_view> allowed,
                   const std::string& otherwise) const;
  std::optional<int64_t> count(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  /// Whether a switch is there, and not "false".
  bool on(std::string_view name) const;
  [[noreturn]] void fail(const std::string& what) const;

  /// A field so far: of the list, or as it is by default.
  int64_t size(std::string_view key) const;
  bool is_given(const char* key) const { return options_.given.contains(key); }
  /// One that is derived: from this argument, where it is there, or else assumed.
  void derive(std::string_view name, const std::string& key, const nlohmann::json& value,
              const std::string& why);
  void miss(std::string_view name, const std::string& what);

  // One argument after the other.
  void check_names() const;
  /// Lists what no reader has listed: a switch that is off, or what others make superfluous.
  void list_others();
  void read_one(const Argument& argument);
  bool read_depending(const Argument& argument);
  void read_field(const MegatronArgument& line, const Argument& argument);
  void read_defaults();
  // Several together.
  void read_together();
  void read_sizes();
  void read_gate();
  void read_heads();
  void read_positions();
  void read_rotary();
  void read_dropout();
  void read_bias();
  void read_window();
  void read_vocabulary();
  void read_objective();
  void read_type();
  void read_optimizer();
  void read_layout();
  void read_chunks();
  void read_context();
  void read_two_dimensions(bool used);
  void read_batch();
  void read_shard();
  /// Layers, and what counts as one where stages divide them.
  int64_t divided_layers() const;
  void read_stages();
  std::vector<int64_t> counts_by_ends();
  std::vector<int64_t> counts_by_type();
  void read_layout_of_stages();
  void read_groups();
  void read_instances(const std::string& what);
  void read_overlap(const std::string& what);
  void read_attention();
  void read_scores();
  void read_loss();
  void read_program();
  /// True if the list is of a time since Megatron-Core, by arguments that came with it.
  bool is_core() const;
  void read_deferred_gradients();
  void read_recomputation();
  void read_full_recomputation();
  void read_selective_recomputation();
  void read_offloading();
  void read_offloaded_modules(const char* by, const char* name);
  /// Parts of a layer's activations that are not computed again.
  LayerModules offloadable() const;
  bool is_old() const;
  /// Attention is Megatron-LM's own, or that of PyTorch's operations, not TransformerEngine's.
  bool is_local() const;
  int64_t replicas();

  /// Has the program imitate a behaviour, "+NAME" or "~NAME", where an argument is there.
  void imitate(const char* name, std::string_view behaviour, std::string_view note = "");

  std::string program_;                   ///< behaviours beside those of a program
  std::vector<Imported::Part> imitated_;  ///< arguments that they come of, with notes
  const ArgumentList& list_;
  const ImportOptions& options_;
  const std::string file_;
};

}  // namespace frugal::harness
