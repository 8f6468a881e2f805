#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/place/device_kind.h"

namespace frugal::kernels {
struct Gpu;
}  // namespace frugal::kernels

namespace frugal::harness {

/// What a number may depend on besides its configuration, by allow-list: processor, caches, memory,
/// kernel, compiler, libraries, commit, governor, load. What is not known is null. Never a user
/// name or path, and a host's name only where ranks are processes, which may be on several. Of a
/// run on the cpu, also which kernels ran; of one on GPUs, which are there, their libraries, and
/// the state in which they are (harness/place/gpu_state.h).
nlohmann::json environment(std::optional<DeviceKind> of = {});
/// The same text of a run that has ended: with what is known only then, where algorithms of
/// products on a GPU came from, up to now, and the GPUs' state.
std::string ended(const std::string& environment);
nlohmann::json to_json(const Gpu& gpu);

/// Versions of what is loaded for GPUs: "cuBLASLt", "cuDNN", "NCCL", as far as the build has them.
std::map<std::string, std::string> gpu_libraries();

/// "AMD EPYC 9554", as the processor names itself.
std::string processor_name();

/// "13.0" of 13000, as CUDA counts its versions.
std::string cuda_version(int version);

/// Processors this process may use, which is fewer than there are under an affinity mask.
int usable_processors();

/// Now, UTC, ISO 8601: "2022-05-10T12:00:00.123Z".
std::string utc_now();

}  // namespace frugal::harness
