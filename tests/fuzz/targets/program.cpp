#include "engine/program/find_program.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// A file of a program. The name of what was read says the same without the file.
void read_program(const std::string& path) {
  const engine::Program program = engine::find_program(path);
  require(program.behaviours().size() == engine::find_program_file(path).behaviours.size(),
          "there are more behaviours or fewer than in the file");
  require(engine::find_program(name_of(program)).behaviours() == program.behaviours(),
          "the name stands for other behaviours");
}

const bool program_added = add_target({"program", "program.json", read_program});

}  // namespace
}  // namespace frugal::testing
