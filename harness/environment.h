#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace frugal {

/// What a number may depend on besides its configuration, by allow-list: processor, caches, memory,
/// kernel, compiler, libraries, commit, governor, load. What is not known is null. Never a host
/// name, user name or path.
nlohmann::json environment();

/// "AMD EPYC 9554", as the processor names itself.
std::string processor_name();

/// Processors this process may use, which is fewer than there are under an affinity mask.
int usable_processors();

/// Now, UTC, ISO 8601: "2022-05-10T12:00:00.123Z".
std::string utc_now();

}  // namespace frugal
