#include "harness/settings/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/settings/paths.h"

namespace frugal::harness {

std::string Field::default_text() const {
  if (depends || of == FieldOf::model) return "";
  return usual.is_null() || type.is_switch() ? "" : type.text(usual);
}

std::string Field::file_of(const std::string& text) const {
  const size_t colon = text.find(':');
  switch (file) {
    case File::none:
      return "";
    case File::perhaps:
      return described_in(text);
    case File::behind_colon:
      return colon == std::string::npos ? "" : described_in(text.substr(colon + 1));
    case File::always:
      return text;
  }
  return "";
}

bool Field::is_written(const RunSettings& settings) const {
  return written ? written(settings) : get(settings) != usual;
}

Field Field::always() && {
  return std::move(*this).when([](const RunSettings&) { return true; });
}

Field Field::if_said() && {
  depends = true;
  return std::move(*this);
}

Field Field::with_file(File kind) && {
  file = kind;
  return std::move(*this);
}

Field Field::needed() && {
  required = true;
  return std::move(*this).always();
}

Field Field::when(std::function<bool(const RunSettings&)> condition) && {
  written = std::move(condition);
  return std::move(*this);
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> joined;
    for (const auto& list :
         {model_fields, place_fields, layout_fields, memory_fields, training_fields})
      for (Field& field : list()) joined.push_back(std::move(field));
    for (Field& field : joined) field.usual = field.get(RunSettings());
    return joined;
  }();
  return all;
}

const Field& field_of(std::string_view key) {
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [key](const Field& field) { return field.key == key; });
  if (found == fields().end())
    throw std::logic_error(fmt::format("no field of a configuration is called {}", key));
  return *found;
}

}  // namespace frugal::harness
