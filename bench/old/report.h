#pragma once
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/namespace.h"
#include "kernels/support/error.h"

namespace frugal::bench {

/// Processes that wanted to run in the last minute.
inline double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : -1;
}

/// Writes what --json asks for; nothing where the file has no name. Throws InputError.
inline void write_json(const std::string& file, const nlohmann::json& json) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << json.dump() << '\n';
  if (!out.flush()) throw InputError("--json " + file + ": cannot be written; choose another file");
}

}  // namespace frugal::bench
