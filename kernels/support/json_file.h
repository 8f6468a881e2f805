#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Reading JSON that a user wrote. Everything that can be wrong with it is an InputError of one
/// line: the file, the line and column or the key, what was found, what is allowed.
namespace frugal::kernels {

/// `name` stands for the file in messages. Refuses a key that stands twice in one object, and what
/// is nested so deeply that nobody wrote it.
nlohmann::json parse_json(std::string_view text, const std::string& name);
/// Like parse_json(), but throws nlohmann::json::exception for text that is not JSON; it says
/// where.
nlohmann::json parse_json_strictly(std::string_view text, const std::string& name);
/// True if all of it is UTF-8, which text in JSON has to be.
bool is_utf8(std::string_view text);
/// A file's content; throws InputError where it is absent or cannot be read.
std::string read_text(const std::string& path);
/// parse_json() of read_text().
nlohmann::json load_json(const std::string& path);

/// One object of a JSON file together with where it stands in it, so that every error can say so.
/// Refers to a document that must outlive it.
class JsonObject {
 public:
  /// `path` is the key path of the object in its file, empty for the root. Throws InputError unless
  /// `json` is an object.
  JsonObject(const nlohmann::json& json, std::string file, std::string path = "");

  const std::string& file() const { return file_; }
  /// "network.latency" for key "latency" of the object at "network".
  std::string path_of(std::string_view key) const;
  bool has(std::string_view key) const;
  /// All keys, in alphabetical order.
  std::vector<std::string> keys() const;

  /// T is bool, int64_t, double, std::string, or a std::vector of one of the last three. Throws
  /// InputError where the key is absent or its value of another type; a whole number is a double
  /// too.
  template <class T>
  T require(std::string_view key) const;
  /// `otherwise` where the key is absent; a value of another type is still an InputError.
  template <class T>
  T optional(std::string_view key, T otherwise) const {
    return has(key) ? require<T>(key) : otherwise;
  }
  /// A number in [low, high].
  int64_t integer(std::string_view key, int64_t low,
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(std::string_view key, double low,
                double high = std::numeric_limits<double>::infinity()) const;

  JsonObject object(std::string_view key) const;
  /// The elements of an array, each of which must be an object.
  std::vector<JsonObject> objects(std::string_view key) const;
  /// Any value, for what the above do not cover.
  const nlohmann::json& at(std::string_view key) const;

  /// Throws InputError for the first key that is not among these, with the nearest that is.
  void allow_only(const std::vector<std::string>& allowed) const;

  /// InputError: "<file>: <path of key> <what>".
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;

 private:
  const nlohmann::json* json_;
  std::string file_, path_;
};

/// Names nearest to `name` by edit distance, at most three, nearest first: for "did you
/// mean". Names that have little in common with it are left out.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& names);

}  // namespace frugal::kernels
