#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace frugal {

struct Gpu;

/// What a number may depend on besides its configuration, by allow-list: processor, caches, memory,
/// kernel, compiler, libraries, commit, governor, load. What is not known is null. Never a host
/// name, user name or path. With the GPUs, which are there, where the run is on them.
nlohmann::json environment(bool with_gpus = false);
nlohmann::json to_json(const Gpu& gpu);

/// "AMD EPYC 9554", as the processor names itself.
std::string processor_name();

/// "13.0" of 13000, as CUDA counts its versions.
std::string cuda_version(int version);

/// Processors this process may use, which is fewer than there are under an affinity mask.
int usable_processors();

/// Now, UTC, ISO 8601: "2022-05-10T12:00:00.123Z".
std::string utc_now();

}  // namespace frugal
