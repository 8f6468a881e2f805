#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Readers of what users give, for any bytes: by the fuzzer (fuzzer.cpp, scripts/fuzz.sh), and for
/// the files of corpus/ in every build (corpus_test.cpp).
namespace frugal::testing {

/// A reader. Its seeds are the files of corpus/NAME; what begins with "refused" is to be refused,
/// all else to be read.
struct FuzzTarget {
  std::string name;
  std::string file;  ///< how an input is called: "config.json"
  /// Reads a file, writes what it says, and reads that again (require_same). Throws InputError for
  /// a file that is refused.
  std::function<void(const std::string& path)> read;
};

/// A file of targets/ adds its target before main(): `const bool added = add_target({…});`.
bool add_target(FuzzTarget target);
const std::vector<FuzzTarget>& fuzz_targets();

/// Has a target read these bytes, and returns whether it did: false where it refused them with one
/// line of text (InputError). Whatever else it throws passes; std::logic_error for a message that
/// is not one line.
bool read_bytes(const FuzzTarget& target, std::string_view bytes);

/// What was written and read again says the same as before. Throws std::logic_error.
void require_same(const nlohmann::json& before, const nlohmann::json& after);
void require(bool holds, std::string_view what);

/// Makes a file, in a folder that is gone with the program, and returns its path. `name` may have
/// folders before it.
std::string scratch_file(const std::string& name, std::string_view bytes);

}  // namespace frugal::testing
