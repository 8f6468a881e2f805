#include "engine/checkpoint/training_state.h"

#include <filesystem>

#include "kernels/cpu/device.h"
#include "kernels/support/error.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// A rank's file of a checkpoint: "weight/w" is [4, 3], and all of it is this rank's.
void read_training_state(const std::string& path) {
  std::vector<float> read(12), again(12);
  const auto tensor = [](std::vector<float>& values) {
    const kernels::Shape shape = {4, 3};
    return engine::StateTensor{
        "weight/w", kernels::View(values.data(), kernels::DType::f32, shape), shape, {}};
  };
  kernels::CpuDevice device(1);
  engine::StoredState({path}).read(tensor(read), device);
  const std::string copy = scratch_file("again.safetensors", "");
  std::filesystem::remove(copy);
  try {
    engine::write_state(copy, device, {tensor(read)});
  } catch (const kernels::WrongNumbers&) {  // nobody can go on from values that are not finite
    return;
  }
  engine::StoredState({copy}).read(tensor(again), device);
  require(read == again, "the state is not what was written");
}

const bool training_state_added =
    add_target({"training_state", "rank-0.safetensors", read_training_state});

}  // namespace
}  // namespace frugal::testing
