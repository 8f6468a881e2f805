#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/import/imported.h"

namespace frugal::harness {

/// Keys of a section, "" for those outside of any, and what is said of all of them. With the key
/// "*" whatever stands in the section, where its user chooses the names.
struct KnownKeys {
  std::string_view section;
  std::vector<std::string_view> keys;
  std::string_view what;
  /// Values in JSON that change nothing. None: false, null, "", [] and {}.
  std::vector<std::string_view> usual = {};
};

/// The values of a configuration with sections, by paths such as "training.seq_len", and which of
/// them have been asked for.
class NestedParts {
 public:
  /// `open` is the text that leaves a value to the program around this one; "": none does.
  NestedParts(const nlohmann::json& object, std::string file, std::string_view open = "");

  /// "training.seq_len = 8192", as parts are said; empty where it is not there.
  std::string said(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  /// The first of these that is there.
  std::string first(const std::vector<std::string>& paths) const;
  /// Of a part that is there, and from now on asked for; none of null or "auto". Throws InputError
  /// where it is of another type.
  std::optional<int64_t> whole(std::string_view path, int64_t low = 1);
  std::optional<double> number(std::string_view path);
  std::optional<std::string> text(std::string_view path);
  bool on(std::string_view path);
  /// A text that must be one of these.
  std::optional<std::string> one_of(std::string_view path,
                                    const std::vector<std::string_view>& known);
  /// Whether it is true, without asking for it.
  bool is_on(std::string_view path) const;
  /// Whether it is left to the program around this one.
  bool is_auto(std::string_view path) const;
  /// Takes a part as read.
  void take(std::string_view path);

  [[noreturn]] void fail(std::string_view path, const std::string& what) const;
  /// Says of each that was not asked for what the tables have of it. What has a usual value changes
  /// nothing, and neither do sections that are `off` or whose "enable" or "enabled" is false. What
  /// "auto" stands for nobody knows here: such a part is assumed to change nothing.
  void rest(const std::vector<KnownKeys>& same, const std::vector<KnownKeys>& missing,
            Imported& out, const std::vector<std::string>& off = {}) const;

 private:
  struct Part {
    std::string path;
    nlohmann::json value;
    bool taken = false;
  };
  void flatten(const nlohmann::json& object, const std::string& path);
  const Part* find(std::string_view path) const;
  bool is_off(const Part& part, const std::vector<std::string>& off) const;
  void say(const Part& part, const std::vector<KnownKeys>& same,
           const std::vector<KnownKeys>& missing, Imported& out,
           const std::vector<std::string>& off) const;
  const nlohmann::json* value(std::string_view path);

  std::vector<Part> parts_;
  std::set<std::string, std::less<>> asked_;  ///< paths, whether they are there or not
  std::string file_;
  std::string_view open_;
};

}  // namespace frugal::harness
