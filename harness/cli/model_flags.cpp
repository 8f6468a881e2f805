#include "harness/cli/model_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/models.h"
#include "kernels/support/error.h"

namespace frugal {

void ModelFlags::add(Flags& flags) {
  flags.text("--model", name, fmt::format("{}|FILE.json|FOLDER", fmt::join(model_names(), "|")),
             "A model by name, or described in a JSON file or in a folder's config.json");
  flags.integer("--layers", layers, 1, "Transformer layers instead of the model's");
  flags.integer("--hidden", hidden, 1, "Hidden size instead of the model's");
  flags.integer("--heads", heads, 1, "Attention heads instead of the model's");
  flags.integer("--sequence", sequence, 1, "Sequence length instead of the model's, tokens");
  flags.integer("--vocabulary", vocabulary, 1, "Vocabulary size instead of the model's");
  flags.number("--dropout", dropout, 0, 1,
               "Dropout probability instead of the model's, rounded to 1/65536");
  flags.scale("--scale", scale, "Hidden size, sequence length and vocabulary divided by K");
}

ModelConfig ModelFlags::unscaled() const {
  if (name.empty())
    throw InputError(fmt::format("--model is missing; give one of {}, or a JSON file",
                                 fmt::join(model_names(), ", ")));
  ModelConfig model = find_model(name);
  model.layers = layers.value_or(model.layers);
  model.hidden = hidden.value_or(model.hidden);
  model.heads = heads.value_or(model.heads);
  model.sequence = sequence.value_or(model.sequence);
  model.vocabulary = vocabulary.value_or(model.vocabulary);
  model.dropout = dropout.value_or(model.dropout);
  return model;
}

std::string ModelFlags::changes() const {
  std::string text;
  const auto put = [&](const char* flag, const auto& value) {
    if (value) text += fmt::format(" {} {}", flag, *value);
  };
  put("--layers", layers);
  put("--hidden", hidden);
  put("--heads", heads);
  put("--sequence", sequence);
  put("--vocabulary", vocabulary);
  put("--dropout", dropout);
  return text;
}

}  // namespace frugal
