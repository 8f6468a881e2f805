#include "tests/fuzz/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/support/error.h"
#include "tests/support/folder.h"

namespace frugal::testing {
namespace {

namespace fs = std::filesystem;

std::vector<FuzzTarget>& targets() {
  static std::vector<FuzzTarget> all;
  return all;
}

/// No end of line, and nothing that a terminal obeys.
bool is_one_line(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
}

}  // namespace

bool add_target(FuzzTarget target) {
  targets().push_back(std::move(target));
  return true;
}

const std::vector<FuzzTarget>& fuzz_targets() { return targets(); }

bool read_bytes(const FuzzTarget& target, std::string_view bytes) {
  try {
    target.read(scratch_file(target.file, bytes));
    return true;
  } catch (const kernels::InputError& refused) {
    require(is_one_line(refused.what()),
            fmt::format("the message is not one line: {}", refused.what()));
    return false;
  }
}

void require_same(const nlohmann::json& before, const nlohmann::json& after) {
  require(before == after,
          fmt::format("what is read again is {}, and it was {}", after.dump(), before.dump()));
}

void require(bool holds, std::string_view what) {
  if (!holds) throw std::logic_error(std::string(what));
}

std::string scratch_file(const std::string& name, std::string_view bytes) {
  static const Folder folder;
  const fs::path path = folder / name;
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw std::runtime_error("no file can be written: " + path.string());
  return path.string();
}

}  // namespace frugal::testing
