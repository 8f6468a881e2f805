#pragma once
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harness/namespace.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {

/// The keys of a model's config.json of Hugging Face's library, where null is as good as absent
/// unless it is given otherwise. Whatever is wrong is an InputError that names file and key. Refers
/// to a document that must outlive it.
class HuggingFaceReader {
 public:
  HuggingFaceReader(const nlohmann::json& config, const std::string& file)
      : json_(config), object_(config, file) {}

  const JsonObject& object() const { return object_; }
  bool has(std::string_view key) const { return object_.has(key) && !object_.at(key).is_null(); }
  int64_t integer(std::string_view key, int64_t otherwise) const {
    return has(key) ? object_.integer(key, 1) : otherwise;
  }
  double number(std::string_view key, double otherwise) const {
    return has(key) ? object_.number(key, 0, 1e9) : otherwise;
  }
  bool flag(std::string_view key, bool otherwise) const {
    return has(key) ? object_.require<bool>(key) : otherwise;
  }
  /// A number whose null is 0: not there.
  double nullable(std::string_view key, double otherwise) const {
    return object_.has(key) ? number(key, 0) : otherwise;
  }
  /// Refuses a key that is there with another value than the engine has.
  template <class T>
  void only(std::string_view key, const T& value) const {
    if (has(key) && object_.at(key) != nlohmann::json(value))
      object_.fail(key, fmt::format("is {}; the engine has {} only, give another model",
                                    object_.at(key).dump(), nlohmann::json(value).dump()));
  }
  /// Refuses a key that is neither read nor known to say nothing of a model.
  void check_keys() const;

 private:
  const nlohmann::json& json_;
  JsonObject object_;
};

}  // namespace frugal::harness
