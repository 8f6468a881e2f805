#pragma once
#include <string>

#include "harness/namespace.h"

namespace frugal::harness {

/// A file without its folder: what is recorded names no paths.
std::string file_name(const std::string& path);
/// The same of what describes a model or machine: a model's config.json is called after its folder,
/// which stands for it.
std::string description_name(const std::string& path);
/// The same of what may stand behind a colon: "virtual:machines/mine.json" gives
/// "virtual:mine.json".
std::string without_folder(const std::string& text);

/// The file that a model's or machine's name leads to; empty where it is one that is known.
std::string described_in(const std::string& name);

/// A text as a shell reads it again as one word.
std::string shell_word(const std::string& text);

}  // namespace frugal::harness
